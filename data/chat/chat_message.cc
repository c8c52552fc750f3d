// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/chat_message.h"

#include <algorithm>
#include <cstddef>

#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/tool_calls.h"

namespace zeroth {

absl::Status CheckTurns(absl::Span<const ChatMessage> messages, absl::string_view last) {
  if (messages.empty())
    return absl::InvalidArgumentError("the conversation has no message, expected at least one");
  size_t i = messages[0].role == "system" ? 1 : 0;
  absl::string_view expected = "user";
  bool may_be_tool = false;
  for (; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    const bool is_tool = message.role == "tool";
    if (message.role != expected && !(is_tool && may_be_tool)) {
      const bool is_first = i == 0 || (i == 1 && messages[0].role == "system");
      return InvalidArgument(
          "message ", i + 1, " is of ", Excerpt(message.role), ", expected ",
          may_be_tool ? "tool or " : "", expected,
          expected == "tool" || is_tool
              ? ": messages of tools directly follow the assistant's \"tool_calls\""
              : ": after a message of the system, or none, user and assistant take turns",
          !is_first || expected != "user" ? ""
          : i == 0                        ? "; remove what stands before the user's first message"
          : message.role == "system"
              ? "; join the messages of the system into one"
              : "; remove what stands between the system's message and the user's first");
    }
    const bool calls = !message.tool_calls.empty();
    if (calls) {
      const absl::Status status =
          message.role == "assistant"
              ? CheckToolCalls(message.tool_calls)
              : InvalidArgument("has \"tool_calls\", expected them of the assistant only");
      if (!status.ok()) return InvalidArgument("message ", i + 1, " ", status.message());
    }
    may_be_tool = is_tool;
    expected = calls ? "tool" : message.role == "assistant" ? "user" : "assistant";
  }
  const absl::string_view role = messages.back().role;
  if (role == last || (last == "user" && role == "tool")) return absl::OkStatus();
  const bool has_reply = std::ranges::any_of(
      messages, [](const ChatMessage& message) { return message.role == "assistant"; });
  return InvalidArgument(
      "the last message is of ", Excerpt(messages.back().role), ", expected one of \"", last, "\"",
      last == "assistant" && has_reply ? "; remove what follows the assistant's last" : "");
}

}  // namespace zeroth
