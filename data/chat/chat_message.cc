// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/chat_message.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Between these, Qwen 3 thinks before it answers.
constexpr char kThought[] = "<think>";
constexpr char kEndOfThought[] = "</think>";

absl::string_view WithoutFirstNewlines(absl::string_view text) {
  while (absl::ConsumePrefix(&text, "\n")) continue;
  return text;
}

}  // namespace

std::string ReplyWithThoughts(const ChatMessage& message, bool last) {
  absl::string_view reply = message.content;
  absl::string_view thought;
  if (message.thought.has_value()) thought = *message.thought;
  if (const size_t end = reply.find(kEndOfThought);
      !message.thought.has_value() && end != absl::string_view::npos) {
    thought = reply.substr(0, end);
    const size_t begin = thought.rfind(kThought);
    if (begin != absl::string_view::npos) thought.remove_prefix(begin + sizeof(kThought) - 1);
    reply.remove_prefix(reply.rfind(kEndOfThought) + sizeof(kEndOfThought) - 1);
    reply = WithoutFirstNewlines(reply);
  }
  if (!last) return std::string(reply);
  thought = WithoutFirstNewlines(thought);
  while (absl::ConsumeSuffix(&thought, "\n")) continue;
  return absl::StrCat(kThought, "\n", thought, "\n", kEndOfThought, "\n\n",
                      WithoutFirstNewlines(reply));
}

absl::Status CheckTurns(absl::Span<const ChatMessage> messages, absl::string_view last) {
  if (messages.empty()) return absl::InvalidArgumentError("a conversation without a message");
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
