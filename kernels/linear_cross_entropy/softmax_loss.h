// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The parts of the fused loss that are not matmuls.

#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/cuda/data_error.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// *counted = the number of targets that are not -100. A target outside of [0, vocab) is reported to
// `error`, and does not count.
absl::Status CountTargets(int64_t rows, int64_t vocab, const int32_t* targets, int32_t* counted,
                          DataErrorWord* error, const LaunchTarget& target);

// The divisor of the sum over rows, in device memory.
struct LossDivisor {
  const int32_t* counted = nullptr;  // written by CountTargets
  const float* given = nullptr;      // used instead, if not null
  bool is_one = false;               // without `given`: divide by 1 instead of `counted`
};

// `weights`, one for each row or null for ones, multiply the gradients of SoftmaxLoss and the
// losses of MeanLoss.

// For each row: losses[row] = log(sum(exp(logits))) - logits[target], or 0 if the target does not
// count. If `gradients`, the logits are overwritten with (softmax - one_hot(target)) * grad_scale /
// divisor in `dtype`, from the start of each row's memory, and with zeros from `vocab` to `stride`.
// `cap` is LinearCrossEntropyArgs::logit_cap: if above 0, the logits are capped first, and the
// gradients are those before the cap.
// Rows that fit into `shared_bytes`, the shared memory that a block may have, are read once, and
// longer ones twice. `stride` is a multiple of 8, and `logits` is aligned to 16 bytes.
absl::Status SoftmaxLoss(int64_t rows, int64_t vocab, int64_t stride, float* logits,
                         const int32_t* targets, LossDivisor divisor, const float* weights,
                         bool gradients, DType dtype, float grad_scale, float cap, float* losses,
                         size_t shared_bytes, const LaunchTarget& target);

// *loss = sum(losses) / divisor, or 0 if no target counts.
absl::Status MeanLoss(int64_t rows, const float* losses, const float* weights, LossDivisor divisor,
                      float* loss, const LaunchTarget& target);

// out (+)= sums, rounded once. out is `dtype`.
absl::Status RoundSums(int64_t count, const float* sums, bool accumulate, DType dtype, void* out,
                       const LaunchTarget& target);

}  // namespace zeroth::cuda
