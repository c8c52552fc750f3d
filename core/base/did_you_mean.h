// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_BASE_DID_YOU_MEAN_H_
#define ZEROTH_CORE_BASE_DID_YOU_MEAN_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

// What other frameworks and earlier versions call something here.
struct NamedElsewhere {
  const char* ours;   // as a hint says it, such as "full_shard (ZeRO-3)"
  const char* names;  // theirs in lower case, "_" for "-" and ".", separated by blanks
};

// A hint for whoever wrote a name that does not exist, such as "; did you mean full_shard
// (ZeRO-3)?". It names what others call so, or else up to three of `ours` that are spelled alike,
// each with `prefix` before it. Empty if `unknown` is far from all of them.
std::string DidYouMean(absl::string_view unknown, absl::Span<const NamedElsewhere> elsewhere,
                       absl::Span<const std::string> ours, absl::string_view prefix = "");

// The same, and the names that there are: "; did you mean cpu? This program has: cpu".
std::string InsteadOf(absl::string_view unknown, absl::Span<const NamedElsewhere> elsewhere,
                      absl::Span<const std::string> ours);

}  // namespace zeroth

#endif  // ZEROTH_CORE_BASE_DID_YOU_MEAN_H_
