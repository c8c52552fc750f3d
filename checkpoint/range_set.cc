// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/range_set.h"

#include <algorithm>
#include <iterator>

#include "zeroth/core/base/check.h"

namespace zeroth {

bool RangeSet::Insert(int64_t begin, int64_t end) {
  ZEROTH_CHECK(begin <= end);
  if (begin == end) return true;
  auto next = ranges_.lower_bound(begin);
  if (next != ranges_.end() && next->first < end) return false;
  const bool has_previous = next != ranges_.begin();
  if (has_previous && std::prev(next)->second > begin) return false;
  if (next != ranges_.end() && next->first == end) {
    end = next->second;
    next = ranges_.erase(next);
  }
  if (has_previous && std::prev(next)->second == begin) {
    std::prev(next)->second = end;
    return true;
  }
  ranges_.emplace_hint(next, begin, end);
  return true;
}

std::optional<std::pair<int64_t, int64_t>> RangeSet::FirstGap(int64_t size) const {
  // Adjacent ranges are merged, so only the first one can reach back to zero.
  const bool from_zero = !ranges_.empty() && ranges_.begin()->first == 0;
  const int64_t covered = from_zero ? ranges_.begin()->second : 0;
  if (covered >= size) return std::nullopt;
  const auto next = ranges_.upper_bound(covered);
  return std::pair(covered, next == ranges_.end() ? size : std::min(size, next->first));
}

}  // namespace zeroth
