// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

// The names that other frameworks and earlier versions have for one of this project's names.
struct NamedElsewhere {
  const char* ours;   // our name, as in a hint: "full_shard (ZeRO-3)"
  const char* names;  // their names in lower case, with "_" for "-" and ".", separated by blanks
};

// Returns a hint for a name that does not exist, such as "; did you mean full_shard (ZeRO-3)?". It
// suggests our name for what others call `unknown`, or else up to three of `ours` with a similar
// spelling, each after `prefix`. Empty if no name is similar.
std::string DidYouMean(absl::string_view unknown, absl::Span<const NamedElsewhere> elsewhere,
                       absl::Span<const std::string> ours, absl::string_view prefix = "");

// Returns the hint of DidYouMean, followed by all names: "; did you mean cpu? This program has:
// cpu".
std::string InsteadOf(absl::string_view unknown, absl::Span<const NamedElsewhere> elsewhere,
                      absl::Span<const std::string> ours);

}  // namespace zeroth
