// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_CROSS_ENTROPY_H_
#define ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_CROSS_ENTROPY_H_

#include <cstdint>
#include <optional>

#include "zeroth/core/base/dtype.h"

namespace zeroth::cpu {

// Targets with this value are left out of the mean.
inline constexpr int32_t kIgnoredTarget = -100;

// Adds -log softmax(logits)[target] of every row whose target is not kIgnoredTarget to `loss`, in
// the order of the rows. If `gradients` names a type, fp32, bf16 or fp16, each row of logits [rows,
// vocab] becomes (softmax - one-hot(target)) * factor of that type, from the row's first byte on,
// and zeros where it is ignored; otherwise the contents of `logits` are lost. The result does not
// depend on the number of threads.
void SoftmaxCrossEntropy(int64_t rows, int64_t vocab, float* logits, const int32_t* targets,
                         std::optional<DType> gradients, float factor, double& loss);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_CROSS_ENTROPY_H_
