// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/data/chat/chat_message.h"
#include "zeroth/data/chat/read_jinja.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {

// Writes a model's conversations as tokens, in one of the common formats. The format is recognized
// by markers in the Jinja template that comes with a tokenizer. The spelling of a special token
// inside a message is text, unless the tokenizer parses special tokens. Immutable and thread-safe.
// The tokenizer must outlive this.
class ChatTemplate {
 public:
  enum class Format { kChatMl, kLlama3, kMistral };

  // The tokens of a conversation. by_assistant marks the assistant's text and the token that ends
  // its turn, but not the tokens that open the turn.
  struct Conversation {
    std::vector<int32_t> ids;
    std::vector<bool> by_assistant;
  };

  // The plain format of this name: chatml, llama3 or mistral. InvalidArgument for another name, and
  // for a tokenizer that lacks a token of the format.
  static absl::StatusOr<ChatTemplate> Named(absl::string_view name, const Tokenizer& tokenizer);
  // The format that a Jinja template writes. InvalidArgument for an unknown format; the message
  // names it if it can be recognized.
  static absl::StatusOr<ChatTemplate> FromJinja(absl::string_view jinja,
                                                const Tokenizer& tokenizer);

  // Writes a whole conversation, whose last message is the assistant's.
  absl::StatusOr<Conversation> Render(absl::Span<const ChatMessage> messages) const;
  // Writes a conversation whose last message is the user's, and opens the assistant's reply.
  absl::StatusOr<std::vector<int32_t>> RenderPrompt(absl::Span<const ChatMessage> messages) const;
  // What the assistant says, of the text that a model has generated after RenderPrompt, without the
  // blanks that Render writes itself.
  absl::string_view ReplyOf(absl::string_view generated) const;
  // The token that ends a reply.
  int32_t end_of_turn() const { return end_of_turn_; }
  // "chatml", for messages.
  absl::string_view name() const;
  // Text that differs between different templates for the same tokenizer.
  std::string Identity() const;
  // A Jinja template of the plain format. FromJinja reads it as what Named returns.
  std::string PlainJinja() const;

 private:
  class Writer;

  explicit ChatTemplate(Format format) : format_(format) {}
  static absl::StatusOr<ChatTemplate> Create(Format format, const Tokenizer& tokenizer);
  absl::Status Write(absl::Span<const ChatMessage> messages, Writer& writer) const;
  void OpenTurn(absl::string_view role, Writer& writer) const;
  void WriteChatMl(const ChatMessage& message, bool last, Writer& writer) const;
  void WriteLlama3(const ChatMessage& message, Writer& writer) const;
  void WriteMistral(const ChatMessage& message, absl::string_view system, Writer& writer) const;

  // Of Mistral: [INST] and [/INST] are tokens, as since version 0.3.
  bool has_inst_tokens() const { return begin_of_turn_ >= 0 && end_of_header_ >= 0; }
  // Before that [INST] is text, whose first blank is what the tokenizer puts before every text.
  bool has_inst_text() const { return format_ == Format::kMistral && !has_inst_tokens(); }

  Format format_;
  const Tokenizer* tokenizer_ = nullptr;
  int32_t begin_of_text_ = -1;  // Llama 3, Mistral; -1: the format has none
  int32_t begin_of_turn_ = -1;  // <|im_start|>, <|start_header_id|>; [INST], -1: it is text
  int32_t end_of_header_ = -1;  // <|end_header_id|>, [/INST]
  int32_t end_of_turn_ = -1;
  MistralFormat mistral_;
  ChatMlFormat chatml_;
  bool says_dates_ = false;  // Llama 3.1 and later: the system's message begins with two dates
};

// `choice` is a name, or "auto": the template beside the tokenizer at `tokenizer_path`, a directory
// or a file in it. That is chat_template.jinja, or otherwise "chat_template" of
// tokenizer_config.json. NotFound if there is none; errors name the file.
absl::StatusOr<ChatTemplate> OpenChatTemplate(absl::string_view choice,
                                              const std::string& tokenizer_path,
                                              const Tokenizer& tokenizer);

}  // namespace zeroth
