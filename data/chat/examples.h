// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Reads records of every kind except text as training examples: a conversation, a prompt and its
// completion, a pair of either, or a judged completion.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/data/chat/chat_message.h"
#include "zeroth/data/records.h"

namespace zeroth {

struct Example {
  // The messages that a chat template renders. Empty: the example is the text of `prompt` and
  // `completion`.
  std::vector<ChatMessage> messages;
  std::string prompt;
  std::string completion;
  ChatTools tools{};  // that the messages may call
  // For a preference pair, the rejected answer to the same prompt; `messages` or `completion` has
  // the chosen one.
  std::vector<ChatMessage> rejected_messages{};
  std::string rejected_completion{};
  size_t prompt_messages = 0;  // the first of `messages` that the answer follows, likewise
  bool is_desirable = false;   // the "label" of a judged completion
};

struct ExampleOptions {
  // False: an Alpaca record is text, in the format of the Alpaca project (AlpacaPrompt).
  bool has_template = true;
  // False: only the completion of a kPromptMessages record is learned, not replies in its prompt.
  // Of pairs, only answers are learned in any case.
  bool loss_on_all = false;
  // Completions have a "label": whether they are desirable.
  bool judges = false;
};

// True if examples of this kind are conversations, which only a chat template can write.
bool NeedsTemplate(RecordKind kind);
// True if examples of this kind are written by a chat template where there is one.
bool UsesTemplate(RecordKind kind);

// Reads a record of `kind`, not kText. Every key of a message is read, known to only describe it,
// or refused. Other keys of the record are refused if they would change what is learned, and
// ignored otherwise. InvalidArgument names the record and what is wrong, and is returned for a
// record of another kind and for one in which the assistant or the completion has neither text nor
// a tool call.
absl::StatusOr<Example> ParseExample(RecordKind kind, const JsonRecord& record,
                                     const ExampleOptions& options);

// The prompt of the Alpaca project, up to the response. `input` may be empty.
std::string AlpacaPrompt(const std::string& instruction, const std::string& input);

}  // namespace zeroth
