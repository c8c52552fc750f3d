// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/chat_message.h"

#include <cstddef>

#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status CheckTurns(absl::Span<const ChatMessage> messages, absl::string_view last) {
  if (messages.empty())
    return absl::InvalidArgumentError("the conversation has no message, expected at least one");
  size_t i = messages[0].role == "system" ? 1 : 0;
  bool is_user = true;
  for (; i < messages.size(); ++i, is_user = !is_user) {
    const absl::string_view expected = is_user ? "user" : "assistant";
    if (messages[i].role == expected) continue;
    return InvalidArgument(
        "message ", i + 1, " is of ", Excerpt(messages[i].role), ", expected ", expected,
        ": after a message of the system, or none, user and assistant take turns");
  }
  if (messages.back().role == last) return absl::OkStatus();
  return InvalidArgument("the last message is of ", Excerpt(messages.back().role),
                         ", expected one of \"", last, "\"");
}

}  // namespace zeroth
