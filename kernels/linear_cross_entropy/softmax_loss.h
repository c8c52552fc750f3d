// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The part of the fused loss that is not products.

#ifndef ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_SOFTMAX_LOSS_H_
#define ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_SOFTMAX_LOSS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/cuda/data_error.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// *counted = the number of targets that are not -100; one outside of [0, vocab) goes to `error` and
// counts as -100 afterwards.
absl::Status CountTargets(int64_t rows, int64_t vocab, const int32_t* targets, int32_t* counted,
                          DataErrorWord* error, const LaunchTarget& target);

// What a sum over rows is divided by, in device memory.
struct LossDivisor {
  const int32_t* counted = nullptr;  // CountTargets'
  const float* given = nullptr;      // in the place of it, if not null
};

// For each row: losses[row] = log(sum(exp(logits))) - logits[target], 0 where there is no target;
// and if `gradients`, logits become (softmax - one_hot(target)) * grad_scale / divisor in `dtype`,
// at the start of each row's memory. Rows that fit into `shared_bytes`, what a block may have of
// shared memory, are read once, longer ones twice. `stride` is a multiple of 8, the first row on 16
// bytes.
absl::Status SoftmaxLoss(int64_t rows, int64_t vocab, int64_t stride, float* logits,
                         const int32_t* targets, LossDivisor divisor, bool gradients, DType dtype,
                         float grad_scale, float* losses, size_t shared_bytes,
                         const LaunchTarget& target);

// *loss = sum(losses) / divisor, 0 if nothing counts.
absl::Status MeanLoss(int64_t rows, const float* losses, LossDivisor divisor, float* loss,
                      const LaunchTarget& target);

// out (+)= sums, rounded once. out is `dtype`.
absl::Status RoundSums(int64_t count, const float* sums, bool accumulate, DType dtype, void* out,
                       const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_SOFTMAX_LOSS_H_
