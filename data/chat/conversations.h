// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/documents.h"
#include "zeroth/data/token_source.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {

// True if the first line of a file of JSON lines is a conversation: an object with "messages".
absl::StatusOr<bool> HoldsConversations(const DataFile& file);

// Returns the messages of {"messages": [{"role": …, "content": …}, …]}. Every key of a message is
// read, known to only describe it, or refused. Keys beside the messages are refused if they would
// change what is learned, and ignored otherwise. InvalidArgument names the line and what is wrong,
// and is returned for a conversation in which the assistant has no text.
absl::StatusOr<std::vector<ChatMessage>> ParseConversation(const JsonRecord& record);

struct ConversationOptions {
  int64_t seq_len = 0;
  // True: every token of a conversation but its first is a target. False: only what the assistant
  // says.
  bool loss_on_all = false;
};

// Packs the conversations of files of JSON lines into rows of seq_len + 1 tokens. A row holds whole
// conversations, and is padded with end-of-text tokens, which are not targets. Each conversation
// goes into the first of the latest rows that has room for it. A conversation longer than a row is
// cut at the row's end, and is left out if the rest has no target; notes() counts both.
//
// InvalidArgument names the line of a conversation whose turns are out of order or in which the
// assistant has no text. InvalidArgument, too, if no file has a target.
absl::StatusOr<std::shared_ptr<const TokenSource>> EncodeConversations(
    const std::vector<DataFile>& files, const ChatTemplate& chat, const Tokenizer& tokenizer,
    const ConversationOptions& options);

}  // namespace zeroth
