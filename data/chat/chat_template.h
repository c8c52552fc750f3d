// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/data/chat/chat_message.h"
#include "zeroth/data/chat/jinja/syntax.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {

// Writes a model's conversations as tokens, in one of the common formats. The format of the Jinja
// template that comes with a tokenizer is recognized by markers, and its details by what it writes
// for a few conversations. Render and RenderPrompt write exactly the template's text: they refuse a
// conversation for which the template writes another. The spelling of a special token inside a
// message is text, unless the tokenizer parses special tokens. Immutable and thread-safe. The
// tokenizer must outlive this.
class ChatTemplate {
 public:
  enum class Format { kChatMl, kLlama3, kMistral };

  // The tokens of a conversation. by_assistant marks the assistant's text and the token that ends
  // its turn, but not the tokens that open the turn.
  struct Conversation {
    std::vector<int32_t> ids;
    std::vector<bool> by_assistant;
  };

  // bos_token, eos_token and others, by name.
  using SpecialTokens = std::map<std::string, std::string>;

  // The plain format of this name: chatml, llama3 or mistral. InvalidArgument for another name, and
  // for a tokenizer that lacks a token of the format.
  static absl::StatusOr<ChatTemplate> Named(absl::string_view name, const Tokenizer& tokenizer);
  // The format that a Jinja template writes, with these values of bos_token and the like. Without
  // any, bos_token is the tokenizer's first token of a text, and eos_token its end of text.
  // InvalidArgument for an unknown format (the message names it if it can be recognized), for a
  // template that cannot be run here, and for one that writes another text than its format; the
  // message shows where they differ.
  static absl::StatusOr<ChatTemplate> FromJinja(
      absl::string_view jinja, const Tokenizer& tokenizer,
      const std::optional<SpecialTokens>& special_tokens = std::nullopt);

  // Writes a whole conversation, whose last message is the assistant's.
  absl::StatusOr<Conversation> Render(absl::Span<const ChatMessage> messages) const;
  // Writes a conversation whose last message is the user's, and opens the assistant's reply.
  absl::StatusOr<std::vector<int32_t>> RenderPrompt(absl::Span<const ChatMessage> messages) const;
  // The assistant's reply in the text that a model generated after RenderPrompt, without the blanks
  // that Render itself writes.
  absl::string_view ReplyOf(absl::string_view generated) const;
  // The token that ends a reply.
  int32_t end_of_turn() const { return end_of_turn_; }
  // "chatml", for messages.
  absl::string_view name() const;
  // Text that differs between different templates for the same tokenizer.
  std::string Identity() const;
  // A Jinja template of the plain format, from which FromJinja makes the same as Named.
  std::string PlainJinja() const;

 private:
  class Writer;
  class Fitting;

  enum class SystemPlace { kBeforeFirst, kBeforeLast };  // of the user's messages
  struct Trims {
    bool system = false;
    bool user = false;
    bool assistant = false;
  };

  explicit ChatTemplate(Format format) : format_(format) {}
  static absl::StatusOr<ChatTemplate> Create(Format format, const Tokenizer& tokenizer);
  // The text of a conversation, special tokens spelled out.
  absl::StatusOr<std::string> Spell(absl::Span<const ChatMessage> messages, bool opens_reply) const;
  // InvalidArgument if the template writes this conversation otherwise, or refuses it.
  absl::Status CheckAgainstJinja(absl::Span<const ChatMessage> messages, bool opens_reply) const;
  absl::Status Write(absl::Span<const ChatMessage> messages, bool opens_reply,
                     Writer& writer) const;
  std::string Trimmed(const ChatMessage& message) const;
  std::string HeaderOf(absl::string_view role) const;
  void OpenTurn(absl::string_view role, Writer& writer) const;
  void WriteTurn(const ChatMessage& message, bool last, Writer& writer) const;
  void WriteMistral(const ChatMessage& message, absl::string_view system, Writer& writer) const;

  // Mistral: [INST] and [/INST] are tokens, as since version 0.3.
  bool has_inst_tokens() const { return begin_of_turn_ >= 0 && end_of_header_ >= 0; }

  Format format_;
  const Tokenizer* tokenizer_ = nullptr;
  int32_t begin_of_text_ = -1;  // -1: conversations begin without one
  int32_t begin_of_turn_ = -1;  // <|im_start|>, <|start_header_id|>; [INST], -1: it is text
  int32_t end_of_header_ = -1;  // <|end_header_id|>, [/INST]
  int32_t end_of_turn_ = -1;
  Trims trims_;  // blanks at the ends of these roles' contents are left out
  std::string after_turn_;

  // ChatML and Llama 3.
  std::optional<std::string> default_system_;  // for conversations without one; may be empty
  std::string before_system_;  // begins a message of the system, as Llama 3.1's dates
  bool thinks_ = false;  // the last reply begins with its thoughts, and earlier ones lose theirs
  std::string opened_;   // what a prompt has behind the header of the reply

  // Mistral: [INST] and [/INST] with the blanks around them, and the blanks of a reply.
  std::string before_user_;
  std::string after_user_;
  std::string before_reply_;
  std::string after_reply_;
  SystemPlace system_place_ = SystemPlace::kBeforeFirst;

  // Set by FromJinja. Shared by copies.
  struct Source {
    JinjaNode jinja;
    SpecialTokens special_tokens;
    bool opens_replies = false;  // add_generation_prompt changes what it writes
  };
  std::shared_ptr<const Source> source_;
};

// `choice` is a name, or "auto": the template beside the tokenizer at `tokenizer_path`, a directory
// or a file in it. That is chat_template.jinja, or otherwise "chat_template" of
// tokenizer_config.json. NotFound if there is none; errors name the file.
absl::StatusOr<ChatTemplate> OpenChatTemplate(absl::string_view choice,
                                              const std::string& tokenizer_path,
                                              const Tokenizer& tokenizer);

}  // namespace zeroth
