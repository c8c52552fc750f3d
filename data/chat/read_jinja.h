// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What a model's Jinja template says beyond the format that it writes. Only forms that published
// templates have are read. InvalidArgument, too, for what is no whole Jinja template.

#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// What templates of ChatML differ in.
struct ChatMlFormat {
  // The message of the system that a conversation without one gets, as Qwen 2's; may be empty.
  std::optional<std::string> default_system;
  // As Qwen 3's: the last reply begins with its thoughts, maybe empty; earlier ones lose theirs.
  bool thinks = false;
  // What a prompt has behind the header of the reply, as "<think>\n" of models that always think.
  std::string opened;
};

// What templates with [INST] differ in.
struct MistralFormat {
  struct Turn {
    std::string before;
    std::string after;
    bool trims = false;  // blanks at the ends of the content are left out

    friend bool operator==(const Turn&, const Turn&) = default;
  };
  enum class System { kBeforeFirst, kBeforeLast, kNowhere };

  Turn user;   // [INST] and [/INST], with the blanks around them: "[INST] "
  Turn reply;  // a blank or nothing on each side
  // Before the first or the last of the user's messages.
  System system = System::kBeforeFirst;
};

// InvalidArgument for a form that is not known here, also of the message of the system.
absl::StatusOr<ChatMlFormat> ReadChatMlFormat(absl::string_view jinja);

// `in_tokens` says that [INST] and [/INST] are tokens. InvalidArgument for a form that is not known
// here.
absl::StatusOr<MistralFormat> ReadMistralFormat(absl::string_view jinja, bool in_tokens);

}  // namespace zeroth
