// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/chat_template.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/file/hugging_face.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Indexed by ChatTemplate::Format.
constexpr absl::string_view kFormats[] = {"chatml", "llama3", "mistral"};
constexpr char kSystem[] = "system";
constexpr char kUser[] = "user";
constexpr char kAssistant[] = "assistant";

// The dates of Llama 3.1's template if the caller gives none.
constexpr char kLlama3Dates[] =
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";

// Markers of formats that are not known here, and their names.
constexpr std::pair<const char*, const char*> kOtherFormats[] = {
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

}  // namespace

// Collects tokens, and keeps the first error. Text between two tokens is encoded in one piece.
class ChatTemplate::Writer {
 public:
  // `after_tokens`: text follows special tokens; otherwise each run of it begins a text.
  Writer(const Tokenizer& tokenizer, bool after_tokens)
      : tokenizer_(tokenizer), after_tokens_(after_tokens) {}

  void Text(absl::string_view text) { absl::StrAppend(&text_, text); }

  void Token(int32_t id, bool by_assistant = false) {
    Flush();
    Add(absl::MakeConstSpan(&id, 1), by_assistant);
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

 private:
  void Flush(bool by_assistant = false) {
    if (text_.empty()) return;
    const std::string text = std::exchange(text_, "");
    const auto add = [&](absl::Span<const int32_t> ids) { Add(ids, by_assistant); };
    const bool is_after = after_tokens_ && !result_.ids.empty();
    status_.Update(is_after ? tokenizer_.EncodeAfterToken(text, add)
                            : tokenizer_.EncodeTo(text, /*continues=*/false, add));
  }

  void Add(absl::Span<const int32_t> ids, bool by_assistant) {
    result_.ids.insert(result_.ids.end(), ids.begin(), ids.end());
    result_.by_assistant.resize(result_.ids.size(), by_assistant);
  }

  const Tokenizer& tokenizer_;
  const bool after_tokens_;
  std::string text_;
  Conversation result_;
  absl::Status status_;
};

absl::string_view ChatTemplate::name() const { return kFormats[static_cast<size_t>(format_)]; }

std::string ChatTemplate::Identity() const {
  return absl::StrCat(name(), " ", begin_of_text_, " ", begin_of_turn_, " ", end_of_header_, " ",
                      end_of_turn_, " ", chatml_.thinks, " ", says_dates_, " ",
                      mistral_.user.before, "|", mistral_.user.after, "|", mistral_.reply.before,
                      "|", mistral_.reply.after, "|", mistral_.reply.trims, " ",
                      static_cast<int>(mistral_.system), " ", chatml_.default_system.has_value(),
                      " ", chatml_.default_system.value_or(""), "|", chatml_.opened);
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
      result.mistral_.user = {"[INST] ", result.has_inst_tokens() ? "[/INST]" : " [/INST]"};
      result.mistral_.reply.before = result.has_inst_tokens() ? " " : "";
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
  for (const auto& [marker, name] : kOtherFormats) {
    if (!absl::StrContains(jinja, marker)) continue;
    return InvalidArgument(
        "the chat template is ", name,
        ", which is not known here; expected ChatML, Llama 3's or Mistral's. If the tokenizer has "
        "the tokens of one of these, --chat_template=chatml, llama3 or mistral names it");
  }
  if (absl::StrContains(jinja, "<|im_start|>")) {
    ZEROTH_ASSIGN_OR_RETURN(ChatTemplate result, Create(Format::kChatMl, tokenizer));
    const absl::Span<const int32_t> prefix = tokenizer.prefix();
    if (absl::StrContains(jinja, "bos_token") && !prefix.empty()) result.begin_of_text_ = prefix[0];
    ZEROTH_ASSIGN_OR_RETURN(result.chatml_, ReadChatMlFormat(jinja));
    return result;
  }
  if (absl::StrContains(jinja, "<|start_header_id|>")) {
    ZEROTH_ASSIGN_OR_RETURN(ChatTemplate result, Create(Format::kLlama3, tokenizer));
    result.says_dates_ = absl::StrContains(jinja, "Cutting Knowledge Date");
    return result;
  }
  if (absl::StrContains(jinja, "[INST]")) {
    ZEROTH_ASSIGN_OR_RETURN(ChatTemplate result, Create(Format::kMistral, tokenizer));
    ZEROTH_ASSIGN_OR_RETURN(result.mistral_, ReadMistralFormat(jinja, result.has_inst_tokens()));
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

void ChatTemplate::OpenTurn(absl::string_view role, Writer& writer) const {
  writer.Token(begin_of_turn_);
  writer.Text(role);
  if (format_ == Format::kLlama3) writer.Token(end_of_header_);
  writer.Text(format_ == Format::kLlama3 ? "\n\n" : "\n");
}

void ChatTemplate::WriteChatMl(const ChatMessage& message, bool last, Writer& writer) const {
  OpenTurn(message.role, writer);
  if (message.role != kAssistant) {
    writer.Text(message.content);
    writer.Token(end_of_turn_);
  } else {
    writer.Reply(chatml_.thinks ? ReplyWithThoughts(message, last) : message.content, end_of_turn_);
  }
  writer.Text("\n");
}

void ChatTemplate::WriteLlama3(const ChatMessage& message, Writer& writer) const {
  OpenTurn(message.role, writer);
  if (says_dates_ && message.role == kSystem) writer.Text(kLlama3Dates);
  const absl::string_view text = absl::StripAsciiWhitespace(message.content);
  if (message.role == kAssistant) return writer.Reply(text, end_of_turn_);
  writer.Text(text);
  writer.Token(end_of_turn_);
}

void ChatTemplate::WriteMistral(const ChatMessage& message, absl::string_view system,
                                Writer& writer) const {
  // Of an [INST] in text, the blanks at the beginning of a turn are what the tokenizer puts before
  // every text.
  const bool in_tokens = has_inst_tokens();
  const auto& [user, reply, place] = mistral_;
  if (message.role == kAssistant) {
    const absl::string_view text =
        reply.trims ? absl::StripAsciiWhitespace(message.content) : message.content;
    return writer.Reply(absl::StrCat(in_tokens ? reply.before : "", text, reply.after),
                        end_of_turn_);
  }
  const std::string text = absl::StrCat(system, system.empty() ? "" : "\n\n", message.content);
  if (!in_tokens) {
    return writer.Text(
        absl::StrCat(absl::StripLeadingAsciiWhitespace(user.before), text, user.after));
  }
  const std::pair<std::string, std::string> before =
      absl::StrSplit(user.before, absl::MaxSplits("[INST]", 1));
  const std::pair<std::string, std::string> after =
      absl::StrSplit(user.after, absl::MaxSplits("[/INST]", 1));
  writer.Text(before.first);
  writer.Token(begin_of_turn_);
  writer.Text(absl::StrCat(before.second, text, after.first));
  writer.Token(end_of_header_);
}

absl::string_view ChatTemplate::ReplyOf(absl::string_view generated) const {
  if (format_ != Format::kMistral) return generated;
  if (!has_inst_tokens() || !mistral_.reply.before.empty()) absl::ConsumePrefix(&generated, " ");
  if (!mistral_.reply.after.empty()) absl::ConsumeSuffix(&generated, " ");
  return generated;
}

absl::Status ChatTemplate::Write(absl::Span<const ChatMessage> messages, Writer& writer) const {
  for (const ChatMessage& message : messages) {
    if (!message.thought.has_value() || message.thought->empty()) continue;
    if (chatml_.thinks && message.role == kAssistant) continue;
    return InvalidArgument("message ", &message - messages.data() + 1,
                           " has \"reasoning_content\", which the chat template (", name(),
                           ") does not write",
                           chatml_.thinks ? " for others than the assistant" : "");
  }
  std::string system = chatml_.default_system.value_or("");
  const bool has_system = messages[0].role == kSystem;
  if (has_system) system = messages[0].content;
  messages.remove_prefix(has_system ? 1 : 0);
  if (begin_of_text_ >= 0) writer.Token(begin_of_text_);
  if (format_ != Format::kMistral) {
    const auto write = [&](const ChatMessage& message, bool last) {
      return format_ == Format::kChatMl ? WriteChatMl(message, last, writer)
                                        : WriteLlama3(message, writer);
    };
    if (has_system || chatml_.default_system.has_value() || says_dates_)
      write({kSystem, system}, false);
    for (const ChatMessage& message : messages) write(message, &message == &messages.back());
    return absl::OkStatus();
  }
  if (has_system && mistral_.system == MistralFormat::System::kNowhere) {
    return InvalidArgument(
        "message 1 is of \"system\", for which the model's chat template has no place; expected "
        "user and assistant alone: begin the user's first message with that text");
  }
  // The user's message that the system's stands before. User and assistant take turns.
  const size_t last = messages.size() - (messages.back().role == kUser ? 1 : 2);
  const size_t place = mistral_.system == MistralFormat::System::kBeforeLast ? last : 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    WriteMistral(messages[i], i == place ? system : "", writer);
  }
  return absl::OkStatus();
}

absl::StatusOr<ChatTemplate::Conversation> ChatTemplate::Render(
    absl::Span<const ChatMessage> messages) const {
  ZEROTH_RETURN_IF_ERROR(CheckTurns(messages, kAssistant));
  Writer writer(*tokenizer_, !has_inst_text());
  ZEROTH_RETURN_IF_ERROR(Write(messages, writer));
  return std::move(writer).Finish();
}

absl::StatusOr<std::vector<int32_t>> ChatTemplate::RenderPrompt(
    absl::Span<const ChatMessage> messages) const {
  ZEROTH_RETURN_IF_ERROR(CheckTurns(messages, kUser));
  Writer writer(*tokenizer_, !has_inst_text());
  ZEROTH_RETURN_IF_ERROR(Write(messages, writer));
  if (format_ != Format::kMistral) OpenTurn(kAssistant, writer);
  writer.Text(chatml_.opened);
  ZEROTH_ASSIGN_OR_RETURN(Conversation prompt, std::move(writer).Finish());
  return std::move(prompt.ids);
}

absl::StatusOr<ChatTemplate> OpenChatTemplate(absl::string_view choice,
                                              const std::string& tokenizer_path,
                                              const Tokenizer& tokenizer) {
  if (choice != "auto") return ChatTemplate::Named(choice, tokenizer);
  std::error_code ignored;
  const std::filesystem::path path(tokenizer_path);
  HfChatTemplate found;
  if (!path.empty()) {
    const bool is_directory = std::filesystem::is_directory(path, ignored);
    ZEROTH_ASSIGN_OR_RETURN(
        found, ReadHfChatTemplate((is_directory ? path : path.parent_path()).string()));
  }
  if (found.jinja.empty()) {
    return absl::NotFoundError(absl::StrCat(
        tokenizer_path.empty() ? "the tokenizer" : tokenizer_path,
        " has no chat template, neither a chat_template.jinja nor a \"chat_template\" in a "
        "tokenizer_config.json; name one by --chat_template=chatml, llama3 or mistral"));
  }
  absl::StatusOr<ChatTemplate> result = ChatTemplate::FromJinja(found.jinja, tokenizer);
  if (!result.ok()) return Annotate(result.status(), found.path);
  return result;
}

}  // namespace zeroth
