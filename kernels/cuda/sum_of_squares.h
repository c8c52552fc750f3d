// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_SUM_OF_SQUARES_H_
#define ZEROTH_KERNELS_CUDA_SUM_OF_SQUARES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/kernels/calls.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// words (ExactSum::kWords, see exact_sum.h) += the exact sum of squares of all elements. A block
// adds its elements up in 128-bit integers under an exponent that all its elements share, and then
// adds few words. Those of one type share launches, 254 of them each.
absl::Status AddSquares(absl::Span<const SquaresCall> calls, int64_t* words,
                        const LaunchTarget& target);

// As Kernels::ClipFactor.
absl::Status ClipFactor(const int64_t* words, double scale, double max_norm, float* norm_and_factor,
                        const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_SUM_OF_SQUARES_H_
