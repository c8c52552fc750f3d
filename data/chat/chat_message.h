// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

namespace zeroth {

struct ChatMessage {
  std::string role;  // system, user, assistant or tool, whose content is a tool's result
  std::string content;
  // The assistant's thoughts before `content`. Without a value, a template with thoughts looks for
  // them in `content`.
  std::optional<std::string> thought{};
  // Whether the loss covers the message; without a value, --loss_on decides.
  std::optional<bool> is_learned{};
  // The assistant's tool calls, [{"type": "function", "function": {"name": ..., "arguments": ...},
  // ...}, ...]; null: none.
  nlohmann::ordered_json tool_calls{};
  // False: the message has tool calls and no content.
  bool has_content = true;
  // The name of the speaker or tool, and the id of the call that a tool answers; empty: none.
  std::string name{};
  std::string tool_call_id{};

  bool operator==(const ChatMessage&) const = default;
};

// The tools that a conversation may call: a list of JSON schemas of functions; null: none.
using ChatTools = nlohmann::ordered_json;

// OK if the messages are an optional system message, then user and assistant messages in turns, of
// which the first is the user's and the last has the role `last`. An assistant message with tool
// calls is followed by tool messages and another assistant message, unless it is the last; if
// `last` is the user, tool messages may also come last. InvalidArgument names the message that is
// out of turn.
absl::Status CheckTurns(absl::Span<const ChatMessage> messages, absl::string_view last);

}  // namespace zeroth
