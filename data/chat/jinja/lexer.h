// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

struct JinjaToken {
  enum class Kind {
    kText,
    kOpenPrint,
    kClosePrint,
    kOpenBlock,
    kCloseBlock,
    kName,
    kString,
    kInteger,
    kSign,
    kEnd
  };

  Kind kind = Kind::kEnd;
  std::string text{};  // a string's value; "}}" of kClosePrint and the like, for messages
  int line = 0;
};

// Splits a template into tokens, without comments and without the blanks that trim_blocks,
// lstrip_blocks and the minus signs of tags remove. The last token is kEnd.
absl::StatusOr<std::vector<JinjaToken>> SplitJinja(absl::string_view jinja);

}  // namespace zeroth
