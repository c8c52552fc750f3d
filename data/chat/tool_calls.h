// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tools and their calls, as records write them.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/data/chat/chat_message.h"

namespace zeroth {

// OK for the "tool_calls" of a message in OpenAI's form: a list of {"id": "...", "type":
// "function", "function": {"name": "...", "arguments": {...}}}, where "id" and "type" may be left
// out, and "arguments" may be an object or a string that spells one. InvalidArgument quotes the
// call that is of another form.
absl::Status CheckToolCalls(const nlohmann::ordered_json& calls);

// InvalidArgument for a number so large that it may have been an integer whose digits are lost.
absl::Status CheckIntegers(const nlohmann::ordered_json& json);

// Reads the value of ShareGPT's function_call: the JSON of {"name": "...", "arguments": {...}} or
// of a list of these, as "tool_calls".
absl::StatusOr<nlohmann::ordered_json> ParseFunctionCall(const std::string& text);

// Reads "tools" of a record: a list of JSON schemas, {"type": "function", "function": {"name":
// "...", ...}} or only what is in "function", or a string with the JSON of this list. Null if there
// are none.
absl::StatusOr<ChatTools> ParseTools(const nlohmann::ordered_json& value);

}  // namespace zeroth
