// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_SUM_OF_SQUARES_H_
#define ZEROTH_KERNELS_CPU_SUM_OF_SQUARES_H_

#include <cstdint>

#include "absl/types/span.h"

#include "zeroth/kernels/calls.h"
#include "zeroth/kernels/exact_sum.h"

namespace zeroth::cpu {

// Adds the squares of all elements to words[0, ExactSum::kWords) exactly and leaves the words
// normalised, so that even their bits do not depend on the order or the grouping of the elements.
// One parallel loop.
void AddSquares(absl::Span<const SquaresCall> calls, int64_t* words);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_SUM_OF_SQUARES_H_
