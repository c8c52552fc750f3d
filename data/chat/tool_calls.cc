// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/tool_calls.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/string_view.h"

#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Json = nlohmann::ordered_json;

// Whether `key` of an object is a string that is not empty.
bool HasText(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() && !found->get_ref<const std::string&>().empty();
}

bool AreArguments(const Json& value) {
  if (value.is_object()) return true;
  if (!value.is_string()) return false;
  const auto parsed = ParseOrderedJson(value.get_ref<const std::string&>(), "");
  return parsed.ok() && parsed->is_object();
}

// Whether this is {"name": "...", "arguments": {...}} without other keys.
bool IsFunctionCall(const Json& json) {
  return json.is_object() && json.size() == 2 && HasText(json, "name") &&
         json.contains("arguments") && AreArguments(json["arguments"]);
}

bool IsToolCall(const Json& json) {
  if (!json.is_object() || !json.contains("function")) return false;
  for (const auto& [key, value] : json.items()) {
    const bool is_known = key == "function" ? IsFunctionCall(value)
                          : key == "type"   ? value == "function"
                          : key == "id"     ? value.is_string() || value.is_null()
                          : key == "index"  ? value.is_number_integer() || value.is_null()
                                            : false;
    if (!is_known) return false;
  }
  return true;
}

}  // namespace

absl::Status CheckIntegers(const Json& json) {
  // An integer of more than 64 bits was read as a double.
  constexpr double kFirst = 9.2e18;
  if (json.is_number_float() && std::abs(json.get<double>()) > kFirst) {
    return InvalidArgument("has the number ", json.dump(),
                           " in a tool or in a tool call, which may have lost digits; write it as "
                           "a string");
  }
  if (json.is_structured()) {
    for (const Json& each : json) ZEROTH_RETURN_IF_ERROR(CheckIntegers(each));
  }
  return absl::OkStatus();
}

absl::Status CheckToolCalls(const Json& calls) {
  if (!calls.is_array()) {
    return InvalidArgument("has \"tool_calls\": ", QuoteJson(calls), ", expected a list of calls");
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    if (IsToolCall(calls[i])) continue;
    return InvalidArgument(
        "has call ", i + 1, " of \"tool_calls\": ", QuoteJson(calls[i]),
        ", expected {\"id\": \"...\", \"type\": \"function\", \"function\": {\"name\": \"...\", "
        "\"arguments\": {...}}}, with the arguments as an object or as a string with the JSON of "
        "one");
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> ParseFunctionCall(const std::string& text) {
  const absl::StatusOr<Json> parsed = ParseOrderedJson(text, "the value");
  Json list = parsed.ok() && parsed->is_object() ? Json::array({*parsed}) : parsed.value_or(Json());
  if (!list.is_array() || list.empty() || !std::all_of(list.begin(), list.end(), IsFunctionCall)) {
    return InvalidArgument(
        "of function_call is ", Excerpt(text, 2 * kExcerptBytes),
        ", expected the JSON of {\"name\": \"...\", \"arguments\": {...}}, or of a "
        "list of these");
  }
  Json calls = Json::array();
  for (Json& function : list) {
    calls.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return calls;
}

absl::StatusOr<ChatTools> ParseTools(const Json& value) {
  if (value.empty()) return ChatTools();
  constexpr absl::string_view kExpected =
      ", expected a list of {\"type\": \"function\", \"function\": {\"name\": \"...\", ...}}, or a "
      "string with its JSON";
  Json tools = value;
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (text.empty()) return ChatTools();
    const absl::StatusOr<Json> parsed = ParseOrderedJson(text, "\"tools\"");
    if (!parsed.ok()) return InvalidArgument(parsed.status().message(), kExpected);
    tools = *parsed;
  }
  if (tools.is_null()) return ChatTools();
  if (!tools.is_array()) return InvalidArgument("\"tools\" is ", QuoteJson(tools), kExpected);
  for (size_t i = 0; i < tools.size(); ++i) {
    const Json& tool = tools[i];
    const bool is_wrapped = tool.is_object() && tool.contains("function");
    const Json& function = is_wrapped ? tool["function"] : tool;
    if (function.is_object() && HasText(function, "name")) continue;
    return InvalidArgument("tool ", i + 1, " of \"tools\" is ", QuoteJson(tool), kExpected);
  }
  return tools.empty() ? ChatTools() : tools;
}

}  // namespace zeroth
