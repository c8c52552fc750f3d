// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/ranks_text.h"

#include "absl/strings/str_cat.h"

namespace zeroth {

std::string RankRanges(absl::Span<const int> ranks) {
  constexpr size_t kShortestRange = 3;
  std::string text;
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    absl::StrAppend(&text, text.empty() ? "" : ", ", ranks[begin]);
    if (end - begin < kShortestRange) {
      ++begin;
    } else {
      absl::StrAppend(&text, "-", ranks[end - 1]);
      begin = end;
    }
  }
  return text;
}

std::string RanksText(absl::Span<const int> ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", RankRanges(ranks));
}

}  // namespace zeroth
