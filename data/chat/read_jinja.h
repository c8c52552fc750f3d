// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What a model's Jinja template says beyond the format that it writes. Only forms that published
// templates have are read.

#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/data/chat/jinja.h"

namespace zeroth {

// What templates with [INST] differ in.
struct MistralFormat {
  enum class System { kBeforeFirst, kBeforeLast, kNowhere };

  std::string before_user;   // blanks around [INST], as "[INST] "
  std::string after_user;    // blanks around [/INST]
  std::string before_reply;  // a blank or nothing
  std::string after_reply;
  bool trims_replies = false;
  // Before the first or the last of the user's messages.
  System system = System::kBeforeFirst;
};

// The message of the system that a template of ChatML writes for a conversation without one, as
// Qwen 2's; none if it writes no message then. InvalidArgument if there is a message that cannot be
// read.
absl::StatusOr<std::optional<std::string>> ReadDefaultSystem(absl::Span<const JinjaPart> parts);

// `in_tokens` says that [INST] and [/INST] are tokens. InvalidArgument for a form that is not known
// here.
absl::StatusOr<MistralFormat> ReadMistralFormat(absl::Span<const JinjaPart> parts, bool in_tokens);

}  // namespace zeroth
