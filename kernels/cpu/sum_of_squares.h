// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_SUM_OF_SQUARES_H_
#define ZEROTH_KERNELS_CPU_SUM_OF_SQUARES_H_

#include <cstdint>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/exact_sum.h"

namespace zeroth::cpu {

// Adds the squares of x[0, n), fp32, bf16 or fp16, to words[0, ExactSum::kWords) exactly and leaves
// the words normalised, so that even their bits do not depend on the order or the grouping of the
// elements.
void AddSquares(int64_t n, DType dtype, const void* x, int64_t* words);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_SUM_OF_SQUARES_H_
