// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <bit>
#include <cstdint>

#include "zeroth/core/base/check.h"

namespace zeroth {

// The most sums that wait at once while CompileReduce adds up n in a tree, the result included:
// log2(n + 1), rounded down.
inline int TreeSumLevels(int64_t n) {
  ZEROTH_CHECK(n >= 1);
  // A new sum needs a place only at an even count, next to one place for each 1 bit of the count;
  // 2^k - 2 is the first even count with k - 1 such bits.
  return std::bit_width(static_cast<uint64_t>(n) + 1) - 1;
}

}  // namespace zeroth
