// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_CHAT_CONVERSATIONS_H_
#define ZEROTH_DATA_CHAT_CONVERSATIONS_H_

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

// Whether the first line of a file of JSON lines is a conversation: an object with "messages".
absl::StatusOr<bool> HoldsConversations(const DataFile& file);

// The messages of {"messages": [{"role": …, "content": …}, …]}; other keys are passed over, but for
// tools and calls of them, which are refused.
// InvalidArgument names the line and what of it is none.
absl::StatusOr<std::vector<ChatMessage>> ParseConversation(const JsonRecord& record);

struct ConversationOptions {
  int64_t seq_len = 0;
  // Every token of a conversation is a target but its first; else what the assistant says.
  bool loss_on_all = false;
};

// The conversations of files of JSON lines as rows of seq_len + 1 tokens, each of which holds whole
// conversations, one after the other, and end-of-text tokens to its end, which are no targets. A
// conversation goes into the first of the latest rows that it fits into. One that is longer than a
// row is cut at its end, and left out if nothing is left in it to learn; notes() says how many.
//
// InvalidArgument names the line of a conversation that is out of turn, or in which the assistant
// says nothing, and if nothing of any file is left to learn.
absl::StatusOr<std::shared_ptr<const TokenSource>> EncodeConversations(
    const std::vector<DataFile>& files, const ChatTemplate& chat, const Tokenizer& tokenizer,
    const ConversationOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_DATA_CHAT_CONVERSATIONS_H_
