// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/examples.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/tool_calls.h"

namespace zeroth {
namespace {

// True for a value without content: null, "", [] and {}.
bool IsNothing(const nlohmann::ordered_json& value) {
  return value.empty() || (value.is_string() && value.get_ref<const std::string&>().empty());
}

// Keys of a record that would change what is learned. Ignoring functions, for example, would
// leave them out silently. All other keys describe the record, but for "tools" of conversations.
constexpr absl::string_view kRefusedOfRecord[] = {"functions",     "function_call",
                                                  "tool_choice",   "system",
                                                  "documents",     "loss_mask",
                                                  "images",        "image",
                                                  "videos",        "video",
                                                  "audios",        "audio",
                                                  "chat_template", "chat_template_kwargs",
                                                  "weight",        "loss",
                                                  "trainable",     "masks",
                                                  "history"};

// Keys of a message that describe it, which templates do not write.
constexpr absl::string_view kDescribesMessage[] = {
    "id",    "message_id", "parent_id", "user_id", "model",     "source",
    "lang",  "language",   "metadata",  "date",    "timestamp", "created_at",
    "index", "turn",       "tokens",    "rating",  "score",     "annotations"};

// Keys that say whether a message is learned.
constexpr absl::string_view kLearned[] = {"weight", "loss", "trainable"};

bool IsOneOf(absl::string_view key, absl::Span<const absl::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Reads the value of a key of kLearned. Weights between 0 and 1 are refused: the loss has none.
absl::StatusOr<bool> ReadLearned(absl::string_view key, const nlohmann::ordered_json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number() && (value == 0 || value == 1)) return value == 1;
  return InvalidArgument("has \"", key, "\": ", Shorten(value.dump(-1, ' ', true)),
                         ", expected 0 or false (not learned), or 1 or true");
}

// How messages are written: {"role": "user", "content": ...} or {"from": "human", "value": ...}.
struct MessageFormat {
  const char* role;
  const char* content;
  absl::string_view roles;  // for messages
  const MessageFormat* other;
};
extern const MessageFormat kShareGptFormat;
constexpr char kRoles[] = "system, user, assistant or tool";
const MessageFormat kOpenAiFormat = {"role", "content", kRoles, &kShareGptFormat};
const MessageFormat kShareGptFormat = {"from", "value",
                                       "system, human, user, gpt, assistant, function_call, "
                                       "observation or tool",
                                       &kOpenAiFormat};

constexpr char kFunctionCall[] = "function_call";  // of ShareGPT, as LLaMA-Factory writes it

// The role of this name; empty if there is none.
std::string RoleNamed(const std::string& name, const MessageFormat& format) {
  if (name == "system" || name == "user" || name == "assistant" || name == "tool") return name;
  if (&format != &kShareGptFormat) return "";
  if (name == "human") return "user";
  if (name == "gpt" || name == kFunctionCall) return "assistant";
  return name == "observation" ? "tool" : "";
}

// The text of "content": a string, or a list of parts {"type": "text", "text": "..."}.
absl::StatusOr<std::string> ReadContent(const nlohmann::ordered_json& value,
                                        const MessageFormat& format) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array() || &format != &kOpenAiFormat) {
    return InvalidArgument("expected \"", format.content, "\", a string",
                           &format == &kOpenAiFormat ? " or a list of parts of text" : "");
  }
  std::string text;
  for (size_t i = 0; i < value.size(); ++i) {
    const nlohmann::ordered_json& part = value[i];
    const auto type = part.is_object() ? part.find("type") : part.end();
    const auto of_text = part.is_object() ? part.find("text") : part.end();
    if (type == part.end() || *type != "text" || of_text == part.end() || !of_text->is_string() ||
        part.size() != 2) {
      return InvalidArgument("has part ", i + 1,
                             " of \"content\": ", Shorten(part.dump(-1, ' ', true)),
                             ", expected {\"type\": \"text\", \"text\": \"...\"}");
    }
    text += of_text->get_ref<const std::string&>();
  }
  return text;
}

absl::StatusOr<ChatMessage> ParseMessage(const nlohmann::ordered_json& entry,
                                         const MessageFormat& format) {
  if (!entry.is_object()) return absl::InvalidArgumentError("is not an object");
  if (entry.contains(format.other->role) && entry.contains(format.other->content) &&
      !entry.contains(format.role)) {
    return InvalidArgument(
        "has \"", format.other->role, "\" and \"", format.other->content, "\", expected \"",
        format.role, "\" (", format.roles, ") and \"", format.content, "\"",
        &format == &kShareGptFormat ? "; read it by --data_columns=messages=conversations"
                                    : "; read it by --data_columns=conversations=messages");
  }
  ChatMessage message;
  for (const auto& [key, value] : entry.items()) {
    if (key == format.role || key == format.content || IsNothing(value)) continue;
    if (key == "reasoning_content") {
      if (!value.is_string()) {
        return absl::InvalidArgumentError("expected \"reasoning_content\", a string");
      }
    } else if (key == "name" || key == "tool_call_id") {
      if (!value.is_string()) return InvalidArgument("expected \"", key, "\", a string");
      (key == "name" ? message.name : message.tool_call_id) = value.get<std::string>();
    } else if (key == "tool_calls") {
      ZEROTH_RETURN_IF_ERROR(CheckToolCalls(value));
      message.tool_calls = value;
    } else if (IsOneOf(key, kLearned)) {
      ZEROTH_ASSIGN_OR_RETURN(const bool learned, ReadLearned(key, value));
      if (message.is_learned.value_or(learned) != learned) {
        return InvalidArgument("has \"", key, "\": ", learned ? "true" : "false",
                               ", but another key says the opposite");
      }
      message.is_learned = learned;
    } else if (!IsOneOf(key, kDescribesMessage)) {
      return InvalidArgument("has ", Excerpt(key),
                             ", which is not read; leave the key out if it says nothing about what "
                             "is to be learned");
    }
  }
  const auto role = entry.find(format.role);
  if (role == entry.end() || !role->is_string()) {
    return InvalidArgument("expected \"", format.role, "\", a string");
  }
  message.role = RoleNamed(role->get<std::string>(), format);
  if (message.role.empty()) {
    return InvalidArgument("has the role ", Excerpt(role->get<std::string>()), ", expected ",
                           format.roles);
  }
  if (!message.tool_calls.empty() && message.role != "assistant") {
    return InvalidArgument("has \"tool_calls\", expected them of the assistant only, not of ",
                           Excerpt(message.role));
  }
  const auto found = entry.find(format.content);
  const nlohmann::ordered_json content = found == entry.end() ? nlohmann::ordered_json() : *found;
  message.has_content = !content.is_null() || message.tool_calls.empty();
  if (message.has_content) {
    ZEROTH_ASSIGN_OR_RETURN(message.content, ReadContent(content, format));
  }
  if (&format == &kShareGptFormat && *role == kFunctionCall) {
    ZEROTH_ASSIGN_OR_RETURN(message.tool_calls, ParseFunctionCall(message.content));
    message.content.clear();
    message.has_content = false;
  }
  if (const auto thought = entry.find("reasoning_content");
      thought != entry.end() && thought->is_string()) {
    message.thought = thought->get<std::string>();
  }
  return message;
}

absl::StatusOr<std::vector<ChatMessage>> ParseMessages(const nlohmann::ordered_json& json,
                                                       const char* key,
                                                       const MessageFormat& format) {
  const nlohmann::ordered_json& list = json[key];
  if (!list.is_array()) {
    return InvalidArgument("\"", key, "\" is ", list.type_name(), ", expected a list");
  }
  std::vector<ChatMessage> messages;
  for (const nlohmann::ordered_json& entry : list) {
    absl::StatusOr<ChatMessage> message = ParseMessage(entry, format);
    if (!message.ok()) {
      return InvalidArgument(absl::string_view(key) == "messages" ? "" : absl::StrCat(key, ": "),
                             "message ", messages.size() + 1, " ", message.status().message());
    }
    messages.push_back(*std::move(message));
  }
  return messages;
}

bool IsBlank(absl::string_view text) { return absl::StripAsciiWhitespace(text).empty(); }

// Whether this is a reply that can be learned.
bool IsReply(const ChatMessage& message) {
  return message.role == "assistant" &&
         !(IsBlank(message.content) && IsBlank(message.thought.value_or("")) &&
           message.tool_calls.empty());
}

// The string `key` of a record; empty if it may be left out, and is left out or null.
absl::StatusOr<std::string> ReadText(const nlohmann::ordered_json& json, const char* key,
                                     bool may_be_left_out = false) {
  const auto found = json.find(key);
  if (may_be_left_out && (found == json.end() || found->is_null())) return std::string();
  if (found->is_string()) return found->get<std::string>();
  return InvalidArgument("\"", key, "\" is ", found->type_name(), ", expected a string");
}

absl::StatusOr<Example> ParseAlpaca(const nlohmann::ordered_json& json, bool has_template) {
  ZEROTH_ASSIGN_OR_RETURN(std::string instruction, ReadText(json, "instruction"));
  ZEROTH_ASSIGN_OR_RETURN(const std::string input, ReadText(json, "input", true));
  ZEROTH_ASSIGN_OR_RETURN(std::string output, ReadText(json, "output"));
  if (IsBlank(instruction)) {
    return absl::InvalidArgumentError("\"instruction\" has no text; leave the record out");
  }
  if (IsBlank(output)) {
    return absl::InvalidArgumentError(
        "\"output\" has no text, from which nothing is learned; leave the record out");
  }
  if (!has_template) return Example{{}, AlpacaPrompt(instruction, input), std::move(output)};
  if (!input.empty()) absl::StrAppend(&instruction, "\n\n", input);
  return Example{{{"user", std::move(instruction)}, {"assistant", std::move(output)}}, "", ""};
}

// Reads the record's tools, and checks them together with the calls of its messages.
absl::Status ReadTools(const nlohmann::ordered_json& json, Example& example) {
  if (const auto tools = json.find("tools"); tools != json.end()) {
    ZEROTH_ASSIGN_OR_RETURN(example.tools, ParseTools(*tools));
  }
  ZEROTH_RETURN_IF_ERROR(CheckIntegers(example.tools));
  for (const ChatMessage& message : example.messages) {
    ZEROTH_RETURN_IF_ERROR(CheckIntegers(message.tool_calls));
  }
  return absl::OkStatus();
}

absl::StatusOr<Example> ParsePromptMessages(const nlohmann::ordered_json& json, bool loss_on_all) {
  for (const char* const key : {"prompt", "completion"}) {
    if (json[key].is_array()) continue;
    return InvalidArgument("\"", key, "\" is ", json[key].type_name(),
                           ", expected a list of messages as the other has, or text in both");
  }
  Example example;
  ZEROTH_ASSIGN_OR_RETURN(example.messages, ParseMessages(json, "prompt", kOpenAiFormat));
  ZEROTH_ASSIGN_OR_RETURN(std::vector<ChatMessage> completion,
                          ParseMessages(json, "completion", kOpenAiFormat));
  if (completion.size() != 1 || !IsReply(completion[0])) {
    return InvalidArgument("\"completion\" has ", completion.size(),
                           " messages, expected one, of the assistant and with text");
  }
  for (ChatMessage& message : example.messages) {
    if (message.role == "assistant" && !loss_on_all) message.is_learned = false;
  }
  example.messages.push_back(std::move(completion[0]));
  ZEROTH_RETURN_IF_ERROR(ReadTools(json, example));
  return example;
}

absl::StatusOr<Example> ParseConversation(const nlohmann::ordered_json& json, RecordKind kind) {
  Example example;
  ZEROTH_ASSIGN_OR_RETURN(example.messages,
                          kind == RecordKind::kShareGpt
                              ? ParseMessages(json, "conversations", kShareGptFormat)
                              : ParseMessages(json, "messages", kOpenAiFormat));
  if (std::none_of(example.messages.begin(), example.messages.end(), IsReply)) {
    return absl::InvalidArgumentError(
        "a conversation without text of the assistant, from which nothing is learned; leave it "
        "out");
  }
  ZEROTH_RETURN_IF_ERROR(ReadTools(json, example));
  return example;
}

absl::StatusOr<Example> ParseText(const nlohmann::ordered_json& json) {
  Example example;
  ZEROTH_ASSIGN_OR_RETURN(example.prompt, ReadText(json, "prompt"));
  ZEROTH_ASSIGN_OR_RETURN(example.completion, ReadText(json, "completion"));
  if (example.completion.empty()) {
    return absl::InvalidArgumentError(
        "\"completion\" has no text, from which nothing is learned; leave the record out");
  }
  return example;
}

absl::Status CheckKeys(RecordKind kind, const nlohmann::ordered_json& json) {
  const auto tools = json.find("tools");
  if (tools != json.end() && !IsNothing(*tools) && !NeedsTemplate(kind)) {
    return InvalidArgument(
        "has \"tools\", which only conversations have; write the record as "
        "\"messages\", or leave the key out");
  }
  for (const absl::string_view key : kRefusedOfRecord) {
    const auto found = json.find(std::string(key));
    if (found == json.end() || IsNothing(*found)) continue;
    if (IsOneOf(key, kLearned) && ReadLearned(key, *found).value_or(false)) continue;
    return InvalidArgument("has \"", key, "\", which is not read; ",
                           key == "functions" ? "--data_columns=tools=functions reads it as "
                                                "\"tools\""
                                              : "leave the key out if it says nothing about what "
                                                "is to be learned");
  }
  return absl::OkStatus();
}

absl::StatusOr<Example> Parse(RecordKind kind, const nlohmann::ordered_json& json,
                              const ExampleOptions& options) {
  ZEROTH_RETURN_IF_ERROR(CheckKeys(kind, json));
  switch (kind) {
    case RecordKind::kAlpaca:
      return ParseAlpaca(json, options.has_template);
    case RecordKind::kPromptCompletion:
      return ParseText(json);
    case RecordKind::kPromptMessages:
      return ParsePromptMessages(json, options.loss_on_all);
    default:
      return ParseConversation(json, kind);
  }
}

}  // namespace

bool NeedsTemplate(RecordKind kind) {
  return kind == RecordKind::kMessages || kind == RecordKind::kShareGpt ||
         kind == RecordKind::kPromptMessages;
}

std::string AlpacaPrompt(const std::string& instruction, const std::string& input) {
  // https://github.com/tatsu-lab/stanford_alpaca, train.py. A newline follows "### Response:", as
  // in most later trainers.
  const bool has_input = !input.empty();
  return absl::StrCat(
      "Below is an instruction that describes a task",
      has_input ? ", paired with an input that provides further context" : "",
      ". Write a response that appropriately completes the request.\n\n### Instruction:\n",
      instruction, has_input ? absl::StrCat("\n\n### Input:\n", input) : "", "\n\n### Response:\n");
}

absl::StatusOr<Example> ParseExample(RecordKind kind, const JsonRecord& record,
                                     const ExampleOptions& options) {
  ZEROTH_CHECK(kind != RecordKind::kText);
  ZEROTH_RETURN_IF_ERROR(CheckKind(record, kind));
  absl::StatusOr<Example> example = Parse(kind, record.json, options);
  ZEROTH_RETURN_IF_ERROR_WITH(example.status(), record.where);
  return example;
}

}  // namespace zeroth
