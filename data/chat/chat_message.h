// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

struct ChatMessage {
  std::string role;  // system, user or assistant
  std::string content;
  // The assistant's thoughts before `content`. Without a value, a template with thoughts looks for
  // them in `content`.
  std::optional<std::string> thought{};
  // Whether the loss covers the message; without a value, --loss_on decides.
  std::optional<bool> is_learned{};
};

// OK if the messages are an optional one of the system, then the user's and the assistant's in
// turns, beginning with the user's and ending with one of `last`. InvalidArgument names the message
// that is out of turn.
absl::Status CheckTurns(absl::Span<const ChatMessage> messages, absl::string_view last);

}  // namespace zeroth
