// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Sums the gradients of a step's micro-batches along one binary tree, whose lower part is the tree
// over ranks: the same bits however many ranks share the micro-batches.

#pragma once

#include <bit>
#include <cstdint>

#include "zeroth/core/base/check.h"

namespace zeroth {

// The sum over M leaves of a step, leaf j * W + r being micro-batch j of rank r of W. Its left half
// has 2^k leaves, the largest power of two below M, and so on in each half, as communicator.h sums
// over ranks. Where W is a power of two that divides M, the W leaves of one micro-batch are a
// subtree, whichever W it is; what remains is the same tree over n = M / W sums, which arrive in
// order. They are added as in a binary counter: two sums of equally many leaves are merged at once,
// so that at most one of each size waits (pairwise summation, Higham, 1993). CompileReduce does it
// (unit_program.h).

// The most sums that wait at once while n are added up, the result included: log2(n + 1), rounded
// down.
inline int TreeSumLevels(int64_t n) {
  ZEROTH_CHECK(n >= 1);
  // A new sum needs a place only at an even count, next to one place for each 1 bit of the count;
  // 2^k - 2 is the first even count with k - 1 such bits.
  return std::bit_width(static_cast<uint64_t>(n) + 1) - 1;
}

}  // namespace zeroth
