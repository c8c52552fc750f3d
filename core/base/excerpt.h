// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Quotes input in messages, at a bounded length whatever a file holds.

#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace zeroth {

// The most bytes of input that a message quotes.
inline constexpr size_t kExcerptBytes = 60;

// Returns `text` in double quotes and in one line: control characters, quotes and bytes that are
// not UTF-8 are escaped as in C. Text longer than `most` bytes is cut between characters and ends
// in "...".
std::string Excerpt(absl::string_view text, size_t most = kExcerptBytes);

// Returns `text` as it is. Text longer than `most` bytes is cut and ends in "...".
std::string Shorten(absl::string_view text, size_t most = kExcerptBytes);

// Returns an Excerpt of the line of `text` that has byte `position` (or ends there), from shortly
// before that byte to shortly behind it, with "..." where the line is cut.
std::string ExcerptAround(absl::string_view text, size_t position);

}  // namespace zeroth
