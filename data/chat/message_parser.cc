// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/message_parser.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/tool_calls.h"

namespace zeroth {
namespace {

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

constexpr char kRoles[] = "system, user, assistant or tool";

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
    if (key == format.role || key == format.content || IsEmptyValue(value)) continue;
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
    } else if (IsLossMaskKey(key)) {
      ZEROTH_ASSIGN_OR_RETURN(const bool learned, ReadLossMask(key, value));
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

}  // namespace

const MessageFormat kOpenAiFormat = {"role", "content", kRoles, &kShareGptFormat};
const MessageFormat kShareGptFormat = {"from", "value",
                                       "system, human, user, gpt, assistant, function_call, "
                                       "observation or tool",
                                       &kOpenAiFormat};

bool IsEmptyValue(const nlohmann::ordered_json& value) {
  return value.empty() || (value.is_string() && value.get_ref<const std::string&>().empty());
}

bool IsLossMaskKey(absl::string_view key) { return IsOneOf(key, kLearned); }

absl::StatusOr<bool> ReadLossMask(absl::string_view key, const nlohmann::ordered_json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number() && (value == 0 || value == 1)) return value == 1;
  return InvalidArgument("has \"", key, "\": ", Shorten(value.dump(-1, ' ', true)),
                         ", expected 0 or false (not learned), or 1 or true");
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

}  // namespace zeroth
