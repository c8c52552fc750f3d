// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace zeroth {

// Python's str.strip, lstrip or rstrip: removes the characters of `chars`, or Unicode's whitespace.
absl::string_view StripPython(absl::string_view text, std::optional<absl::string_view> chars,
                              bool left, bool right);
inline absl::string_view StripPython(absl::string_view text) {
  return StripPython(text, std::nullopt, true, true);
}

// True for a blank by Python's str.isspace.
bool IsPythonSpace(uint32_t code_point);

// The beginning of a text in quotes, with escapes, for messages.
std::string Excerpt(absl::string_view text);

}  // namespace zeroth
