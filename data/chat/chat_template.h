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
#include "zeroth/data/chat/jinja/render.h"
#include "zeroth/data/chat/jinja/syntax.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {

// Writes a model's conversations as tokens, by running its Jinja template with the variables that
// transformers gives it. Special tokens that the template's text spells are tokens, as with
// apply_chat_template(tokenize=True). The spelling of a special token inside a message is text,
// unless the tokenizer parses special tokens; a message that the template then writes in another
// way is refused. Immutable and thread-safe. The tokenizer must outlive this.
class ChatTemplate {
 public:
  // The tokens of a conversation. by_assistant marks what {% generation %} blocks write. In a
  // template that runs none, it marks the assistant's text and the token that ends its turn, but
  // not what the template writes for add_generation_prompt. A reply begins with a new token, as it
  // does when a model continues the tokens of RenderPrompt.
  struct Conversation {
    std::vector<int32_t> ids;
    std::vector<bool> by_assistant;
  };

  // bos_token, eos_token and others, by name.
  using SpecialTokens = std::map<std::string, std::string>;

  // Returns the built-in template of this name: chatml, llama3 or mistral. InvalidArgument for
  // another name, and for a tokenizer that lacks a token of the format.
  static absl::StatusOr<ChatTemplate> Named(absl::string_view name, const Tokenizer& tokenizer);
  // Compiles a Jinja template. `special_tokens` are the values of bos_token and the like; by
  // default, bos_token is the tokenizer's first token of a text, and eos_token its end of text.
  // InvalidArgument for a template that cannot be run here, and for one that writes no special
  // token after a reply: a model would not learn to stop. `tool_use`, unless it is empty, is the
  // template of conversations with tools, as the template of that name is in transformers; if it is
  // wrong, or ends turns by another token, only conversations with tools are refused.
  static absl::StatusOr<ChatTemplate> FromJinja(
      absl::string_view jinja, const Tokenizer& tokenizer,
      const std::optional<SpecialTokens>& special_tokens = std::nullopt,
      absl::string_view tool_use = "");

  // Writes a whole conversation, whose last message is the assistant's, with the tools that it may
  // call. InvalidArgument if the template leaves out the system's message, the tools, a tool call
  // or a tool's result, or if it renders the conversation before a reply differently when the reply
  // follows than as a prompt, and does not open the reply as it opens others; the message shows
  // where the two texts differ.
  absl::StatusOr<Conversation> Render(absl::Span<const ChatMessage> messages,
                                      const ChatTools& tools = {}) const;
  // Writes a conversation whose last message is the user's or a tool's, and opens the assistant's
  // reply.
  absl::StatusOr<std::vector<int32_t>> RenderPrompt(absl::Span<const ChatMessage> messages,
                                                    const ChatTools& tools = {}) const;
  // Returns the assistant's reply in the text that a model generated after RenderPrompt, without
  // the whitespace that the template writes around it.
  absl::string_view ReplyOf(absl::string_view generated) const;
  // The token that ends the last reply.
  int32_t end_of_turn() const { return end_of_turn_; }
  // Text that differs between different templates for the same tokenizer.
  std::string Identity() const;
  // The template's source, without that of `tool_use`.
  const std::string& jinja() const { return source_->text; }

 private:
  struct Source {
    std::string text;
    JinjaNode jinja;
    SpecialTokens special_tokens;
  };

  ChatTemplate(const Tokenizer& tokenizer, std::shared_ptr<const Source> source)
      : tokenizer_(&tokenizer), source_(std::move(source)) {}

  // Renders the template. `generated` gets the spans that {% generation %} blocks wrote.
  absl::StatusOr<std::string> Run(absl::Span<const ChatMessage> messages, const ChatTools& tools,
                                  bool opens_reply,
                                  std::vector<JinjaSpan>* generated = nullptr) const;
  static absl::StatusOr<ChatTemplate> Compile(absl::string_view jinja, const Tokenizer& tokenizer,
                                              const SpecialTokens& special_tokens,
                                              const ChatTools& tools);
  // Finds the texts that open and end a reply, by rendering a few messages with tools.
  absl::Status Probe(const ChatTools& tools);
  // Returns the assistant's replies in `text`, which Run wrote.
  absl::StatusOr<std::vector<JinjaSpan>> RepliesIn(absl::string_view text,
                                                   absl::Span<const ChatMessage> messages,
                                                   const ChatTools& tools) const;
  absl::StatusOr<size_t> BeginOfReply(absl::string_view text, absl::Span<const ChatMessage> before,
                                      const ChatTools& tools) const;
  // Returns the end in `text` of the last of `messages`, which has tool calls and begins at
  // `begin`.
  absl::StatusOr<size_t> EndOfCalls(absl::string_view text, size_t begin,
                                    absl::Span<const ChatMessage> messages,
                                    const ChatTools& tools) const;
  // Checks that `text` depends on the tools, on every tool call and on every tool's result, and
  // that the output of {% generation %} blocks depends on every call.
  absl::Status CheckWritesTools(absl::string_view text, absl::Span<const JinjaSpan> generated,
                                absl::Span<const ChatMessage> messages,
                                const ChatTools& tools) const;
  // Explains `failed`, Run's error for these messages. If the template runs once messages with tool
  // calls also have content, it either does not write calls or needs that content.
  absl::Status ExplainFailure(const absl::Status& failed, std::vector<ChatMessage> messages,
                              const ChatTools& tools) const;
  absl::StatusOr<Conversation> Write(absl::Span<const ChatMessage> messages, const ChatTools& tools,
                                     bool opens_reply) const;
  // Inserts a character that occurs in no message into each spelling of a special token in the
  // messages and tools. Returns the character; empty if there is no such spelling.
  absl::StatusOr<std::string> MarkSpecial(std::vector<ChatMessage>& messages,
                                          ChatTools& tools) const;
  absl::StatusOr<Conversation> Encode(absl::string_view text, absl::Span<const JinjaSpan> replies,
                                      absl::string_view mark) const;

  const Tokenizer* tokenizer_;
  std::shared_ptr<const Source> source_;                          // shared by copies
  std::shared_ptr<const absl::StatusOr<ChatTemplate>> tool_use_;  // null: none
  int32_t end_of_turn_ = -1;
  bool marks_replies_ = false;    // by {% generation %}
  bool writes_thoughts_ = false;  // of the last reply
  // opening_: the text that opens a reply, in prompts and in conversations. header_: the same if
  // the template ignores add_generation_prompt, so that RenderPrompt must append it; otherwise
  // empty.
  std::string opening_;
  std::string header_;
  // What follows a reply from its first special token on, and how much of it is the reply's.
  std::string after_last_;
  size_t end_of_last_ = 0;
  std::string after_earlier_;  // empty if it has no special token
  size_t end_of_earlier_ = 0;
  // Whitespace around a reply.
  std::string blanks_before_;
  std::string blanks_after_;
};

// `choice` is a name, the path of a .jinja file, or "auto": the template beside the tokenizer at
// `tokenizer_path`, a directory or a file in it. That is chat_template.jinja, or otherwise
// "chat_template" of tokenizer_config.json; conversations with tools use the one named tool_use, if
// there is one (see ReadHfChatTemplate). NotFound if there is none. Messages name the file, or
// `owner` unless that is empty: files of a GGUF file's tokenizer lie in a temporary directory.
absl::StatusOr<ChatTemplate> OpenChatTemplate(absl::string_view choice,
                                              const std::string& tokenizer_path,
                                              const Tokenizer& tokenizer,
                                              absl::string_view owner = "");

}  // namespace zeroth
