// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/chat_template.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Indexed by ChatTemplate::Format.
constexpr absl::string_view kFormats[] = {"chatml", "llama3", "mistral"};
constexpr char kSystem[] = "system";
constexpr char kUser[] = "user";
constexpr char kAssistant[] = "assistant";

// Between these, Qwen 3 thinks before it answers.
constexpr char kThought[] = "<think>";
constexpr char kEndOfThought[] = "</think>";
// The dates of Llama 3.1's template if the caller gives none.
constexpr char kLlama3Dates[] =
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";

// Markers of formats that are not known here.
struct OtherFormat {
  const char* marker;
  const char* name;
};
constexpr OtherFormat kOtherFormats[] = {
    {"<<SYS>>", "Llama 2"},
    {"[SYSTEM_PROMPT]", "Mistral's of 2025, with [SYSTEM_PROMPT]"},
    {"<start_of_turn>", "Gemma"},
    {"<|header_start|>", "Llama 4"},
    {"<|im_sep|>", "Phi 4"},
    {"<|START_OF_TURN_TOKEN|>", "Command R"},
    {"<\xEF\xBD\x9CUser\xEF\xBD\x9C>", "DeepSeek"},
    {"<|start|>", "Harmony"},
    {"<|user|>", "the one with <|user|>, as Phi 3's, Zephyr's and OLMo's"},
    {"### Instruction", "Alpaca"},
};

std::string StripNewlines(absl::string_view text) {
  while (absl::StartsWith(text, "\n")) text.remove_prefix(1);
  return std::string(text);
}

}  // namespace

absl::Status CheckTurns(absl::Span<const ChatMessage> messages, absl::string_view last) {
  if (messages.empty()) return absl::InvalidArgumentError("a conversation without a message");
  size_t i = messages[0].role == kSystem ? 1 : 0;
  bool is_user = true;
  for (; i < messages.size(); ++i, is_user = !is_user) {
    const absl::string_view expected = is_user ? kUser : kAssistant;
    if (messages[i].role == expected) continue;
    return InvalidArgument(
        "message ", i + 1, " is of \"", messages[i].role, "\", expected ", expected,
        ": after a message of the system, or none, user and assistant take turns");
  }
  if (messages.back().role == last) return absl::OkStatus();
  return InvalidArgument("the last message is of \"", messages.back().role,
                         "\", expected one of \"", last, "\"");
}

// Collects tokens. Text between two tokens is encoded in one piece.
class ChatTemplate::Writer {
 public:
  explicit Writer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void Text(absl::string_view text) { absl::StrAppend(&text_, text); }

  absl::Status Token(int32_t id, bool by_assistant = false) {
    ZEROTH_RETURN_IF_ERROR(Flush());
    Add(absl::MakeConstSpan(&id, 1), by_assistant);
    return absl::OkStatus();
  }

  // The assistant's text begins with a new token, as it does when a model continues the tokens of
  // RenderPrompt.
  absl::Status Reply(absl::string_view text, int32_t end_of_turn) {
    ZEROTH_RETURN_IF_ERROR(Flush());
    Text(text);
    ZEROTH_RETURN_IF_ERROR(Flush(/*by_assistant=*/true));
    return Token(end_of_turn, /*by_assistant=*/true);
  }

  absl::Status Flush(bool by_assistant = false) {
    if (text_.empty()) return absl::OkStatus();
    ZEROTH_RETURN_IF_ERROR(
        tokenizer_.EncodeTo(text_, /*continues=*/false,
                            [&](absl::Span<const int32_t> ids) { Add(ids, by_assistant); }));
    text_.clear();
    return absl::OkStatus();
  }

  Conversation& result() { return result_; }

 private:
  void Add(absl::Span<const int32_t> ids, bool by_assistant) {
    result_.ids.insert(result_.ids.end(), ids.begin(), ids.end());
    result_.by_assistant.resize(result_.ids.size(), by_assistant);
  }

  const Tokenizer& tokenizer_;
  std::string text_;
  Conversation result_;
};

absl::string_view ChatTemplate::name() const { return kFormats[static_cast<size_t>(format_)]; }

std::string ChatTemplate::Identity() const {
  return absl::StrCat(name(), " ", begin_of_text_, " ", begin_of_turn_, " ", end_of_header_, " ",
                      end_of_turn_, " ", thinks_, " ", says_dates_, " ", mistral_.before_user, "|",
                      mistral_.after_user, "|", mistral_.before_reply, "|", mistral_.after_reply,
                      "|", mistral_.trims_replies, " ", static_cast<int>(mistral_.system), " ",
                      default_system_.has_value(), " ", default_system_.value_or(""));
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
    case Format::kMistral: {
      const bool in_tokens = has_inst_tokens();
      return absl::StrCat(R"({{ '<s>' }}
{%- set has_system = messages[0]['role'] == 'system' %}
{%- set system = messages[0]['content'] if has_system else '' %}
{%- set system = system + '\n\n' if system else '' %}
{%- for message in (messages[1:] if has_system else messages) %}
{%- if message['role'] == 'user' %}
{{- '[INST] ' + (system if loop.first else '') + message['content'] + ')",
                          in_tokens ? "" : " ", R"([/INST]' }}
{%- else %}
{{- ')",
                          in_tokens ? " " : "", R"(' + message['content'] + '</s>' }}
{%- endif %}
{%- endfor %})");
    }
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
      break;
    case Format::kLlama3:
      result.begin_of_text_ = find("<|begin_of_text|>");
      result.begin_of_turn_ = find("<|start_header_id|>");
      result.end_of_header_ = find("<|end_header_id|>");
      result.end_of_turn_ = find("<|eot_id|>");
      break;
    case Format::kMistral:
      result.begin_of_text_ = find("<s>");
      result.end_of_turn_ = find("</s>");
      // Tokens since version 0.3, text before it.
      result.begin_of_turn_ = tokenizer.Find("[INST]").value_or(-1);
      result.end_of_header_ = tokenizer.Find("[/INST]").value_or(-1);
      result.mistral_.before_user = "[INST] ";
      result.mistral_.after_user = result.has_inst_tokens() ? "[/INST]" : " [/INST]";
      result.mistral_.before_reply = result.has_inst_tokens() ? " " : "";
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

absl::StatusOr<ChatTemplate> ChatTemplate::FromJinja(absl::string_view jinja,
                                                     const Tokenizer& tokenizer) {
  for (const OtherFormat& other : kOtherFormats) {
    if (!absl::StrContains(jinja, other.marker)) continue;
    return InvalidArgument(
        "the chat template is ", other.name,
        ", which is not known here; expected ChatML, Llama 3's or Mistral's. If the tokenizer has "
        "the tokens of one of these, --chat_template=chatml, llama3 or mistral names it");
  }
  if (absl::StrContains(jinja, "<|im_start|>")) {
    ZEROTH_ASSIGN_OR_RETURN(ChatTemplate result, Create(Format::kChatMl, tokenizer));
    const absl::Span<const int32_t> prefix = tokenizer.prefix();
    if (absl::StrContains(jinja, "bos_token") && !prefix.empty()) result.begin_of_text_ = prefix[0];
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<JinjaPart> parts, SplitJinja(jinja));
    ZEROTH_ASSIGN_OR_RETURN(result.default_system_, ReadDefaultSystem(parts));
    result.thinks_ =
        absl::StrContains(jinja, "reasoning_content") && absl::StrContains(jinja, kEndOfThought);
    return result;
  }
  if (absl::StrContains(jinja, "<|start_header_id|>")) {
    ZEROTH_ASSIGN_OR_RETURN(ChatTemplate result, Create(Format::kLlama3, tokenizer));
    result.says_dates_ = absl::StrContains(jinja, "Cutting Knowledge Date");
    return result;
  }
  if (absl::StrContains(jinja, "[INST]")) {
    ZEROTH_ASSIGN_OR_RETURN(ChatTemplate result, Create(Format::kMistral, tokenizer));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<JinjaPart> parts, SplitJinja(jinja));
    ZEROTH_ASSIGN_OR_RETURN(result.mistral_, ReadMistralFormat(parts, result.has_inst_tokens()));
    return result;
  }
  constexpr size_t kShown = 80;
  return InvalidArgument(
      "the chat template is none that is known here: it has neither <|im_start|> "
      "(ChatML), nor <|start_header_id|> (Llama 3), nor [INST] (Mistral), and begins "
      "with \"",
      absl::Utf8SafeCEscape(jinja.substr(0, kShown)),
      "\". If the tokenizer has the tokens of one of these, --chat_template=chatml, "
      "llama3 or mistral names it");
}

absl::Status ChatTemplate::OpenTurn(absl::string_view role, Writer& writer) const {
  ZEROTH_RETURN_IF_ERROR(writer.Token(begin_of_turn_));
  writer.Text(role);
  if (format_ == Format::kLlama3) ZEROTH_RETURN_IF_ERROR(writer.Token(end_of_header_));
  writer.Text(format_ == Format::kLlama3 ? "\n\n" : "\n");
  return absl::OkStatus();
}

absl::Status ChatTemplate::WriteChatMl(const ChatMessage& message, bool last,
                                       Writer& writer) const {
  ZEROTH_RETURN_IF_ERROR(OpenTurn(message.role, writer));
  if (message.role != kAssistant) {
    writer.Text(message.content);
    ZEROTH_RETURN_IF_ERROR(writer.Token(end_of_turn_));
  } else {
    std::string reply = message.content;
    if (thinks_) {
      std::string thought;
      if (const size_t end = reply.find(kEndOfThought); end != std::string::npos) {
        absl::string_view before = absl::string_view(reply).substr(0, end);
        if (const size_t begin = before.rfind(kThought); begin != absl::string_view::npos) {
          before.remove_prefix(begin + sizeof(kThought) - 1);
        }
        thought = StripNewlines(before);
        while (absl::EndsWith(thought, "\n")) thought.pop_back();
        reply = StripNewlines(absl::string_view(reply).substr(reply.rfind(kEndOfThought) +
                                                              sizeof(kEndOfThought) - 1));
      }
      // Thoughts of earlier replies are left out.
      if (last) {
        reply = absl::StrCat(kThought, "\n", thought, "\n", kEndOfThought, "\n\n",
                             StripNewlines(reply));
      }
    }
    ZEROTH_RETURN_IF_ERROR(writer.Reply(reply, end_of_turn_));
  }
  writer.Text("\n");
  return absl::OkStatus();
}

absl::Status ChatTemplate::WriteLlama3(const ChatMessage& message, Writer& writer) const {
  ZEROTH_RETURN_IF_ERROR(OpenTurn(message.role, writer));
  if (says_dates_ && message.role == kSystem) writer.Text(kLlama3Dates);
  const absl::string_view text = absl::StripAsciiWhitespace(message.content);
  if (message.role == kAssistant) return writer.Reply(text, end_of_turn_);
  writer.Text(text);
  return writer.Token(end_of_turn_);
}

absl::Status ChatTemplate::WriteMistral(const ChatMessage& message, absl::string_view system,
                                        Writer& writer) const {
  // Of an [INST] in text, the blanks at the beginning of a turn are what the tokenizer puts before
  // every text.
  const bool in_tokens = has_inst_tokens();
  if (message.role == kAssistant) {
    const absl::string_view text =
        mistral_.trims_replies ? absl::StripAsciiWhitespace(message.content) : message.content;
    return writer.Reply(
        absl::StrCat(in_tokens ? mistral_.before_reply : "", text, mistral_.after_reply),
        end_of_turn_);
  }
  const std::string text = absl::StrCat(system, system.empty() ? "" : "\n\n", message.content);
  if (!in_tokens) {
    writer.Text(absl::StrCat(absl::StripLeadingAsciiWhitespace(mistral_.before_user), text,
                             mistral_.after_user));
    return absl::OkStatus();
  }
  const std::pair<std::string, std::string> before =
      absl::StrSplit(mistral_.before_user, absl::MaxSplits("[INST]", 1));
  const std::pair<std::string, std::string> after =
      absl::StrSplit(mistral_.after_user, absl::MaxSplits("[/INST]", 1));
  writer.Text(before.first);
  ZEROTH_RETURN_IF_ERROR(writer.Token(begin_of_turn_));
  writer.Text(absl::StrCat(before.second, text, after.first));
  return writer.Token(end_of_header_);
}

absl::string_view ChatTemplate::ReplyOf(absl::string_view generated) const {
  if (format_ != Format::kMistral) return generated;
  if (!has_inst_tokens() || !mistral_.before_reply.empty()) absl::ConsumePrefix(&generated, " ");
  if (!mistral_.after_reply.empty()) absl::ConsumeSuffix(&generated, " ");
  return generated;
}

absl::Status ChatTemplate::Write(absl::Span<const ChatMessage> messages, Writer& writer) const {
  std::string system = default_system_.value_or("");
  const bool has_system = messages[0].role == kSystem;
  if (has_system) system = messages[0].content;
  messages.remove_prefix(has_system ? 1 : 0);
  if (begin_of_text_ >= 0) ZEROTH_RETURN_IF_ERROR(writer.Token(begin_of_text_));
  const bool says_system = has_system || default_system_.has_value() || says_dates_;
  if (format_ == Format::kMistral && has_system &&
      mistral_.system == MistralFormat::System::kNowhere) {
    return InvalidArgument(
        "message 1 is of \"system\", for which the model's chat template has no place; expected "
        "user and assistant alone: begin the user's first message with that text");
  }
  // The message of the user that the system's stands before, in Mistral's formats.
  size_t after_system = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role == kUser && mistral_.system == MistralFormat::System::kBeforeLast) {
      after_system = i;
    }
  }
  const auto write = [&](const ChatMessage& message, bool last) {
    return format_ == Format::kChatMl ? WriteChatMl(message, last, writer)
                                      : WriteLlama3(message, writer);
  };
  if (format_ != Format::kMistral && says_system) {
    ZEROTH_RETURN_IF_ERROR(write({kSystem, system}, false));
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    ZEROTH_RETURN_IF_ERROR(format_ == Format::kMistral
                               ? WriteMistral(messages[i], i == after_system ? system : "", writer)
                               : write(messages[i], i + 1 == messages.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<ChatTemplate::Conversation> ChatTemplate::Render(
    absl::Span<const ChatMessage> messages) const {
  ZEROTH_RETURN_IF_ERROR(CheckTurns(messages, kAssistant));
  Writer writer(*tokenizer_);
  ZEROTH_RETURN_IF_ERROR(Write(messages, writer));
  ZEROTH_RETURN_IF_ERROR(writer.Flush());
  return std::move(writer.result());
}

absl::StatusOr<std::vector<int32_t>> ChatTemplate::RenderPrompt(
    absl::Span<const ChatMessage> messages) const {
  ZEROTH_RETURN_IF_ERROR(CheckTurns(messages, kUser));
  Writer writer(*tokenizer_);
  ZEROTH_RETURN_IF_ERROR(Write(messages, writer));
  if (format_ != Format::kMistral) ZEROTH_RETURN_IF_ERROR(OpenTurn(kAssistant, writer));
  ZEROTH_RETURN_IF_ERROR(writer.Flush());
  return std::move(writer.result().ids);
}

}  // namespace zeroth
