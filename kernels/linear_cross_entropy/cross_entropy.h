// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_CROSS_ENTROPY_H_
#define ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_CROSS_ENTROPY_H_

#include <cstdint>
#include <optional>

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/ignored_target.h"

namespace zeroth::cpu {

// Adds -log softmax(logits)[target] of every row whose target is not kIgnoredTarget to `loss`, in
// the order of the rows. If `gradients` names a type, fp32, bf16 or fp16, each row of logits [rows,
// vocab] becomes (softmax - one-hot(target)) * factor of that type, from the row's first byte on,
// and zeros where it is ignored; otherwise the contents of `logits` are lost. The result does not
// depend on the number of threads.
void SoftmaxCrossEntropy(int64_t rows, int64_t vocab, float* logits, const int32_t* targets,
                         std::optional<DType> gradients, float factor, double& loss);

// The same in two steps for a row of which this is a part. First the largest of its logits, and the
// sum of e^(x - max): -infinity and 0 of none.
void SoftmaxPart(const float* x, int64_t n, float& max, float& sum);
// Then, with both of the whole row, (softmax - one-hot(target)) * factor of type `dtype`, zeros for
// kIgnoredTarget; a target outside of [0, n) is in another part. `to` may be x if it is fp32.
void SoftmaxGradientRow(const float* x, int64_t n, int32_t target, float max, double sum,
                        float factor, DType dtype, void* to);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_CROSS_ENTROPY_H_
