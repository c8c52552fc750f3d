// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_CHAT_CHAT_TEMPLATE_H_
#define ZEROTH_DATA_CHAT_CHAT_TEMPLATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/data/tokenizer.h"

namespace zeroth {

struct ChatMessage {
  std::string role;  // system, user or assistant
  std::string content;
};

// OK for a message of the system or none, and then the user and the assistant in turns, from the
// user on, of whom `last` says the last word. InvalidArgument names the message that is out of
// turn.
absl::Status CheckTurns(absl::Span<const ChatMessage> messages, absl::string_view last);

// How a model's conversations are written as tokens: one of the formats that matter, found by what
// is characteristic of it in the Jinja text that comes with a tokenizer. Text is encoded as it is:
// what spells a special token in a message is text, unless the tokenizer was told otherwise.
// Immutable and thread-safe, as long as its tokenizer lives.
class ChatTemplate {
 public:
  enum class Format { kChatMl, kLlama3, kMistral };

  // A conversation in tokens, and of each whether the assistant says it: its text, and what ends
  // its turn, but not what opens it.
  struct Conversation {
    std::vector<int32_t> ids;
    std::vector<bool> by_assistant;
  };

  // The format of this name: chatml, llama3 or mistral, without what single models add to it.
  // InvalidArgument lists the names, or names the token of the format that the tokenizer lacks.
  static absl::StatusOr<ChatTemplate> Named(absl::string_view name, const Tokenizer& tokenizer);
  // The format that a Jinja template writes. InvalidArgument if it is none of those known; it says
  // which one it is, where that can be told.
  static absl::StatusOr<ChatTemplate> FromJinja(absl::string_view jinja,
                                                const Tokenizer& tokenizer);

  // A whole conversation, whose last word is the assistant's.
  absl::StatusOr<Conversation> Render(absl::Span<const ChatMessage> messages) const;
  // A conversation whose last word is the user's, and what opens the assistant's reply.
  absl::StatusOr<std::vector<int32_t>> RenderPrompt(absl::Span<const ChatMessage> messages) const;
  // The token that ends a reply.
  int32_t end_of_turn() const { return end_of_turn_; }
  // "chatml", for messages.
  absl::string_view name() const;
  // All that tells it from other templates for the same tokenizer, as text.
  std::string Identity() const;

 private:
  class Writer;

  explicit ChatTemplate(Format format) : format_(format) {}
  static absl::StatusOr<ChatTemplate> Create(Format format, const Tokenizer& tokenizer);
  absl::Status Write(absl::Span<const ChatMessage> messages, Writer& writer) const;
  absl::Status WriteChatMl(const ChatMessage& message, bool last, Writer& writer) const;
  absl::Status WriteLlama3(const ChatMessage& message, Writer& writer) const;
  absl::Status WriteMistral(const ChatMessage& message, absl::string_view system,
                            Writer& writer) const;

  Format format_;
  const Tokenizer* tokenizer_ = nullptr;
  int32_t begin_of_text_ = -1;  // Llama 3, Mistral; -1: there is none
  int32_t begin_of_turn_ = -1;  // <|im_start|>, <|start_header_id|>; [INST], -1: it is text
  int32_t end_of_header_ = -1;  // <|end_header_id|>, [/INST]
  int32_t end_of_turn_ = -1;
  std::string default_system_;  // what the system says where a conversation has it say nothing
  bool thinks_ = false;         // Qwen3: the last reply has its thoughts before it, or none
  bool says_dates_ = false;     // Llama 3.1 and later: the system says two dates before all
};

// `choice` is a name, or auto: the template at `tokenizer_path`, a tokenizer's directory or a file
// in it: chat_template.jinja, or else what tokenizer_config.json has as "chat_template". NotFound
// if there is none; errors name the file.
absl::StatusOr<ChatTemplate> OpenChatTemplate(absl::string_view choice,
                                              const std::string& tokenizer_path,
                                              const Tokenizer& tokenizer);

}  // namespace zeroth

#endif  // ZEROTH_DATA_CHAT_CHAT_TEMPLATE_H_
