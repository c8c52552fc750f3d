// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/chat_template.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/jinja/text.h"

namespace zeroth {
namespace {

// Indexed by ChatTemplate::Format.
constexpr absl::string_view kFormats[] = {"chatml", "llama3", "mistral"};
constexpr char kSystem[] = "system";
constexpr char kUser[] = "user";
constexpr char kAssistant[] = "assistant";

}  // namespace

// Collects tokens, or text with special tokens spelled out, and keeps the first error. Text between
// two tokens is encoded in one piece, but for replies.
class ChatTemplate::Writer {
 public:
  Writer(const Tokenizer& tokenizer, bool spells) : tokenizer_(tokenizer), spells_(spells) {}

  void Text(absl::string_view text) { absl::StrAppend(&text_, text); }

  void Token(int32_t id, bool by_assistant = false) {
    if (spells_) {
      const absl::StatusOr<std::string> text = tokenizer_.Decode(absl::MakeConstSpan(&id, 1));
      status_.Update(text.status());
      return Text(text.value_or(""));
    }
    Flush();
    Add(absl::MakeConstSpan(&id, 1), by_assistant);
    follows_text_ = false;
  }

  // The assistant's text begins with a new token, as it does when a model continues the tokens of
  // RenderPrompt.
  void Reply(absl::string_view text, int32_t end_of_turn) {
    Flush();
    Text(text);
    Flush(/*by_assistant=*/true);
    Token(end_of_turn, /*by_assistant=*/true);
  }

  absl::StatusOr<Conversation> Finish() && {
    Flush();
    if (!status_.ok()) return status_;
    return std::move(result_);
  }
  absl::StatusOr<std::string> FinishText() && {
    if (!status_.ok()) return status_;
    return std::move(text_);
  }

 private:
  void Flush(bool by_assistant = false) {
    if (text_.empty() || spells_) return;
    const std::string text = std::exchange(text_, "");
    const auto add = [&](absl::Span<const int32_t> ids) { Add(ids, by_assistant); };
    const bool follows_token = !follows_text_ && !result_.ids.empty();
    status_.Update(follows_token ? tokenizer_.EncodeAfterToken(text, add)
                                 : tokenizer_.EncodeTo(text, /*continues=*/follows_text_, add));
    follows_text_ = true;
  }

  void Add(absl::Span<const int32_t> ids, bool by_assistant) {
    result_.ids.insert(result_.ids.end(), ids.begin(), ids.end());
    result_.by_assistant.resize(result_.ids.size(), by_assistant);
  }

  const Tokenizer& tokenizer_;
  const bool spells_;
  bool follows_text_ = false;  // the last output is text, not a special token
  std::string text_;
  Conversation result_;
  absl::Status status_;
};

absl::string_view ChatTemplate::name() const { return kFormats[static_cast<size_t>(format_)]; }

std::string ChatTemplate::Identity() const {
  const auto text = [](const std::string& part) { return absl::StrCat(part.size(), ":", part); };
  return absl::StrCat(name(), " ", begin_of_text_, " ", begin_of_turn_, " ", end_of_header_, " ",
                      end_of_turn_, " ", trims_.system, trims_.user, trims_.assistant, thinks_,
                      default_system_.has_value(), " ", static_cast<int>(system_place_), " ",
                      text(default_system_.value_or("")), text(before_system_), text(opened_),
                      text(after_turn_), text(before_user_), text(after_user_), text(before_reply_),
                      text(after_reply_));
}

std::string ChatTemplate::PlainJinja() const {
  switch (format_) {
    case Format::kChatMl:
      return R"({% for message in messages %}
{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";
    case Format::kLlama3:
      return R"({{ '<|begin_of_text|>' }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}
{{- (message['content'] | trim) + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})";
    case Format::kMistral:
      return absl::StrCat(R"({{ '<s>' }}
{%- set has_system = messages[0]['role'] == 'system' %}
{%- set system = messages[0]['content'] if has_system else '' %}
{%- set system = system + '\n\n' if system else '' %}
{%- for message in (messages[1:] if has_system else messages) %}
{%- if message['role'] == 'user' %}
{{- '[INST] ' + (system if loop.first else '') + message['content'] + ')",
                          has_inst_tokens() ? "" : " ", R"([/INST]' }}
{%- else %}
{{- ' ' + message['content'] + '</s>' }}
{%- endif %}
{%- endfor %})");
  }
  return "";
}

absl::StatusOr<ChatTemplate> ChatTemplate::Create(Format format, const Tokenizer& tokenizer) {
  ChatTemplate result(format);
  result.tokenizer_ = &tokenizer;
  absl::Status status;
  const auto find = [&](absl::string_view token) {
    const std::optional<int32_t> id = tokenizer.Find(token);
    if (!id.has_value() && status.ok()) {
      status =
          InvalidArgument("the chat template ", result.name(), " needs a token ", token,
                          ", which the tokenizer (", tokenizer.name(),
                          ") does not have; expected the tokenizer of a model that chats in this "
                          "format, or another --chat_template");
    }
    return id.value_or(-1);
  };
  switch (format) {
    case Format::kChatMl:
      result.begin_of_turn_ = find("<|im_start|>");
      result.end_of_turn_ = find("<|im_end|>");
      result.after_turn_ = "\n";
      break;
    case Format::kLlama3:
      result.begin_of_text_ = find("<|begin_of_text|>");
      result.begin_of_turn_ = find("<|start_header_id|>");
      result.end_of_header_ = find("<|end_header_id|>");
      result.end_of_turn_ = find("<|eot_id|>");
      result.trims_ = {true, true, true};
      break;
    case Format::kMistral:
      result.begin_of_text_ = find("<s>");
      result.end_of_turn_ = find("</s>");
      // Tokens since version 0.3, text before it.
      result.begin_of_turn_ = tokenizer.Find("[INST]").value_or(-1);
      result.end_of_header_ = tokenizer.Find("[/INST]").value_or(-1);
      result.before_user_ = "[INST] ";
      result.after_user_ = result.has_inst_tokens() ? "[/INST]" : " [/INST]";
      result.before_reply_ = " ";
      break;
  }
  ZEROTH_RETURN_IF_ERROR(status);
  return result;
}

absl::StatusOr<ChatTemplate> ChatTemplate::Named(absl::string_view name,
                                                 const Tokenizer& tokenizer) {
  for (size_t i = 0; i < std::size(kFormats); ++i) {
    if (name == kFormats[i]) return Create(static_cast<Format>(i), tokenizer);
  }
  return InvalidArgument("chat template \"", name, "\", expected chatml, llama3 or mistral");
}

std::string ChatTemplate::Trimmed(const ChatMessage& message) const {
  const bool trims = message.role == kSystem ? trims_.system
                     : message.role == kUser ? trims_.user
                                             : trims_.assistant;
  return std::string(trims ? StripPython(message.content) : message.content);
}

void ChatTemplate::OpenTurn(absl::string_view role, Writer& writer) const {
  writer.Token(begin_of_turn_);
  writer.Text(role);
  if (format_ == Format::kLlama3) writer.Token(end_of_header_);
  writer.Text(format_ == Format::kLlama3 ? "\n\n" : "\n");
}

void ChatTemplate::WriteTurn(const ChatMessage& message, bool last, Writer& writer) const {
  OpenTurn(message.role, writer);
  ChatMessage said = {message.role, Trimmed(message), message.thought};
  if (message.role != kAssistant) {
    if (message.role == kSystem) writer.Text(before_system_);
    writer.Text(said.content);
    writer.Token(end_of_turn_);
  } else {
    writer.Reply(thinks_ ? ReplyWithThoughts(said, last) : said.content, end_of_turn_);
  }
  writer.Text(after_turn_);
}

void ChatTemplate::WriteMistral(const ChatMessage& message, absl::string_view system,
                                Writer& writer) const {
  const std::string content = Trimmed(message);
  if (message.role == kAssistant) {
    writer.Reply(absl::StrCat(before_reply_, content, after_reply_), end_of_turn_);
    return writer.Text(after_turn_);
  }
  const std::string text = absl::StrCat(system, system.empty() ? "" : "\n\n", content);
  if (!has_inst_tokens()) return writer.Text(absl::StrCat(before_user_, text, after_user_));
  const std::pair<std::string, std::string> before =
      absl::StrSplit(before_user_, absl::MaxSplits("[INST]", 1));
  const std::pair<std::string, std::string> after =
      absl::StrSplit(after_user_, absl::MaxSplits("[/INST]", 1));
  writer.Text(before.first);
  writer.Token(begin_of_turn_);
  writer.Text(absl::StrCat(before.second, text, after.first));
  writer.Token(end_of_header_);
}

absl::string_view ChatTemplate::ReplyOf(absl::string_view generated) const {
  if (format_ != Format::kMistral) return generated;
  if (!has_inst_tokens() || !before_reply_.empty()) absl::ConsumePrefix(&generated, " ");
  if (!after_reply_.empty()) absl::ConsumeSuffix(&generated, " ");
  return generated;
}

absl::Status ChatTemplate::Write(absl::Span<const ChatMessage> messages, bool opens_reply,
                                 Writer& writer) const {
  for (const ChatMessage& message : messages) {
    if (!message.thought.has_value() || message.thought->empty()) continue;
    if (thinks_ && message.role == kAssistant) continue;
    return InvalidArgument("message ", &message - messages.data() + 1,
                           " has \"reasoning_content\", which the chat template (", name(),
                           ") does not write", thinks_ ? " for others than the assistant" : "");
  }
  const bool has_system = messages[0].role == kSystem;
  const ChatMessage system = {kSystem,
                              has_system ? messages[0].content : default_system_.value_or("")};
  messages.remove_prefix(has_system ? 1 : 0);
  if (begin_of_text_ >= 0) writer.Token(begin_of_text_);
  if (format_ != Format::kMistral) {
    if (has_system) {
      WriteTurn(system, /*last=*/false, writer);
    } else if (default_system_.has_value()) {
      OpenTurn(kSystem, writer);
      writer.Text(system.content);
      writer.Token(end_of_turn_);
      writer.Text(after_turn_);
    }
    for (const ChatMessage& message : messages) {
      WriteTurn(message, &message == &messages.back(), writer);
    }
    if (opens_reply) {
      OpenTurn(kAssistant, writer);
      writer.Text(opened_);
    }
    return absl::OkStatus();
  }
  // The user's message that the system's precedes. User and assistant take turns.
  const size_t last = messages.size() - (messages.back().role == kUser ? 1 : 2);
  const size_t place = system_place_ == SystemPlace::kBeforeLast ? last : 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    WriteMistral(messages[i], i == place ? Trimmed(system) : "", writer);
  }
  return absl::OkStatus();
}

absl::StatusOr<ChatTemplate::Conversation> ChatTemplate::Render(
    absl::Span<const ChatMessage> messages) const {
  ZEROTH_RETURN_IF_ERROR(CheckTurns(messages, kAssistant));
  Writer writer(*tokenizer_, /*spells=*/false);
  ZEROTH_RETURN_IF_ERROR(Write(messages, /*opens_reply=*/false, writer));
  ZEROTH_RETURN_IF_ERROR(CheckAgainstJinja(messages, /*opens_reply=*/false));
  return std::move(writer).Finish();
}

absl::StatusOr<std::vector<int32_t>> ChatTemplate::RenderPrompt(
    absl::Span<const ChatMessage> messages) const {
  ZEROTH_RETURN_IF_ERROR(CheckTurns(messages, kUser));
  Writer writer(*tokenizer_, /*spells=*/false);
  ZEROTH_RETURN_IF_ERROR(Write(messages, /*opens_reply=*/true, writer));
  ZEROTH_RETURN_IF_ERROR(CheckAgainstJinja(messages, /*opens_reply=*/true));
  ZEROTH_ASSIGN_OR_RETURN(Conversation prompt, std::move(writer).Finish());
  return std::move(prompt.ids);
}

absl::StatusOr<std::string> ChatTemplate::Spell(absl::Span<const ChatMessage> messages,
                                                bool opens_reply) const {
  Writer writer(*tokenizer_, /*spells=*/true);
  ZEROTH_RETURN_IF_ERROR(Write(messages, opens_reply, writer));
  return std::move(writer).FinishText();
}

}  // namespace zeroth
