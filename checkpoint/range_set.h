// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_RANGE_SET_H_
#define ZEROTH_CHECKPOINT_RANGE_SET_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace zeroth {

// A set of integers, held as disjoint half-open ranges. Adjacent ranges are merged, so writing a
// tensor front to back in a million pieces costs one node.
class RangeSet {
 public:
  // Adds [begin, end) and returns true if none of it is in the set. Otherwise changes nothing and
  // returns false.
  bool Insert(int64_t begin, int64_t end);

  // Returns the first maximal range inside [0, size) that is not in the set; empty if there is
  // none.
  std::optional<std::pair<int64_t, int64_t>> FirstGap(int64_t size) const;

 private:
  std::map<int64_t, int64_t> ranges_;  // begin -> end
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_RANGE_SET_H_
