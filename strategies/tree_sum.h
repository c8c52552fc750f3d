// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Sums the gradients of a step's micro-batches along one binary tree, whose lower part is the tree
// over ranks: the same bits however many ranks share the micro-batches.

#pragma once

#include <bit>
#include <cstdint>

#include "zeroth/core/base/check.h"

namespace zeroth {

// The sum over M leaves of a step, leaf j * W + r being micro-batch j of rank r of W. The tree's
// left half has the largest power of two of leaves that is below M, and so on in each half, as
// communicator.h sums over ranks. Where W is a power of two that divides M, the W leaves of one
// micro-batch are a subtree, whichever W it is; what remains is the same tree over n = M / W
// sums, which come one after the other. They are added as a binary counter counts: two sums of
// equally many leaves become one as soon as there are two, so that no more than one of each size
// waits (pairwise summation, Higham, 1993). ReduceGradients does it (gradient_reduction.h).

// The number of sums that wait at most while n are added up, the result included: log2(n + 1),
// rounded down.
inline int TreeSumLevels(int64_t n) {
  ZEROTH_CHECK(n >= 1);
  // A new place is taken on top of an even count's ones; 2^k - 2 is the first count that has k - 1.
  return std::bit_width(static_cast<uint64_t>(n) + 1) - 1;
}

}  // namespace zeroth
