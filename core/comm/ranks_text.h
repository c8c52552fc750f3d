// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Lists of ranks in names and messages.

#pragma once

#include <string>

#include "absl/types/span.h"

namespace zeroth {

// Returns "0-7, 16-23": the ranks in the order given, three or more consecutive ones as a range.
std::string RankRanges(absl::Span<const int> ranks);

// Returns "rank 3", "ranks 1, 3" or "ranks 0-7, 16-23".
std::string RanksText(absl::Span<const int> ranks);

}  // namespace zeroth
