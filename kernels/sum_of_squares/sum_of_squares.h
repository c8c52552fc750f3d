// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The exact sum of squares of gradients in many tensors and on many ranks, and the norm made of it.

#ifndef ZEROTH_KERNELS_SUM_OF_SQUARES_SUM_OF_SQUARES_H_
#define ZEROTH_KERNELS_SUM_OF_SQUARES_SUM_OF_SQUARES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/sum_of_squares/exact_sum.h"

namespace zeroth {

namespace kernels {

// Adds the squares of the elements of all `xs` to `sum` (int64 [ExactSum::kWords] in device
// memory), exactly. The result does not depend on the order of elements, on how they are divided
// among tensors, calls and ranks. Each of `xs` is fp32, bf16 or fp16. Tensors share launches and
// parallel loops as AdamW's ranges do.
absl::Status AddSquares(Kernels& kernels, absl::Span<const Tensor> xs, const Tensor& sum);
inline absl::Status AddSquares(Kernels& kernels, const Tensor& x, const Tensor& sum) {
  return AddSquares(kernels, absl::MakeConstSpan(&x, 1), sum);
}
// norm_and_factor ([2] fp32) = {norm, factor} of gradients whose squares AddSquares has added to
// `sum` and which will be multiplied by `scale` (>= 0): norm = sqrt(sum) * scale; factor = 1 for
// max_norm <= 0, and otherwise min(1, max_norm / (norm + 1e-6)) as torch's clip_grad_norm_; NaN
// where the norm is not a finite fp32. Computed in double, each rounded once.
absl::Status ClipFactor(Kernels& kernels, const Tensor& sum, double scale, double max_norm,
                        const Tensor& norm_and_factor);

}  // namespace kernels

// The checked arguments. Devices normalise the words, so that these too have the same bits whatever
// the order of additions.
struct AddSquaresCall {
  struct Array {
    int64_t count = 0;
    DType dtype = DType::kFloat32;
    const void* x = nullptr;
  };
  std::vector<Array> arrays;
  int64_t* words = nullptr;
};
struct ClipFactorCall {
  const int64_t* words = nullptr;
  double scale = 1;
  double max_norm = 0;
  float* norm_and_factor = nullptr;
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_SUM_OF_SQUARES_SUM_OF_SQUARES_H_
