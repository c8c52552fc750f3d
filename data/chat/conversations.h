// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/chat/on_long.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/documents.h"
#include "zeroth/data/records.h"
#include "zeroth/data/token_source.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {

struct ConversationOptions {
  int64_t seq_len = 0;
  // True: all tokens of an example except the first are targets. False: only the assistant's
  // messages are, or the completion after a prompt.
  bool loss_on_all = false;
  ColumnNames columns{};
  OnLong on_long = OnLong::kTruncate;
  // Read pairs from records that are also of another kind, and refuse records without a pair.
  bool pairs = false;
  // With pairs: read judged answers instead of pairs. A record is a prompt with a completion and a
  // "label", or a pair, whose chosen answer counts as desirable and whose rejected answer counts as
  // undesirable.
  bool judgements = false;
  // With pairs: an answer is scored where it ends. A token that no model reads follows it, and is
  // its only target.
  bool scores = false;
};

// Packs the examples of files of records into rows of seq_len + 1 tokens. Conversations are written
// by the chat template `chat`, and a prompt and its completion as text that an end-of-text token
// ends. Without a template (null), Alpaca records are such text, too; the other kinds of
// conversations need one. A row holds whole examples, and is padded with end-of-text tokens, which
// are not targets. Each example goes into the first of the latest rows that has room for it.
// notes() counts the examples that are longer than a row.
//
// Both documents of a preference pair lie in one row, the chosen answer first. If they are longer
// than a row together, OnLong::kTruncate cuts the longer one, or both to half a row.
//
// A judged answer is the first document of such a pair, and kIsDesirable marks its first token. The
// second document is the same prompt with a mismatched answer: that of the nearest earlier
// judgement whose prompt differs, where the last judgement precedes the first. In a file of pairs,
// the chosen answers come before the rejected ones.
//
// InvalidArgument names the record that is wrong (see ParseExample), or whose turns are out of
// order. InvalidArgument, too, if no file has a target, and if no record has one of the columns.
absl::StatusOr<std::shared_ptr<const TokenSource>> EncodeConversations(
    const std::vector<DataFile>& files, const ChatTemplate* chat, const Tokenizer& tokenizer,
    const ConversationOptions& options);

// Counts of the examples in the rows of EncodeConversations.
struct ExampleCounts {
  int64_t examples = 0;   // a pair is one
  int64_t desirable = 0;  // of judged answers
  int64_t tokens = 0;     // without padding
  int64_t learned = 0;    // tokens that are targets
  int32_t largest = 0;    // the largest id
};
// Errors of the source.
absl::StatusOr<ExampleCounts> CountExamples(const TokenSource& rows);

}  // namespace zeroth
