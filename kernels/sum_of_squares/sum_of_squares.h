// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The exact sum of squares of gradients in many tensors and on many ranks, and the norm from it.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// An exact sum of squares. The gradient norm must not depend on where shards begin, and an exact
// sum does not depend on the order of additions. The sum is a wide fixed-point number (Kulisch's
// accumulator). Its words have spare bits, so that the sums of several ranks can be added word by
// word as integers.
//
// Word w (0 <= w < kBins) counts units of 2^(kBinBits * w + kMinExponent). The square of any finite
// float, subnormals included, is a sum of such units: squares lie in [2^-298, 2^256). Words are
// int64 and may have any sign. A value has many representations, all of which decode to the same
// double. Implementations normalise the words before they store them, which leaves room to add 2^36
// stored sums.
struct ExactSum {
  static constexpr int kBinBits = 26;
  static constexpr int kMinExponent = -298;
  static constexpr int kBins =
      24;  // 24 * 26 bits cover 2^-298 … 2^326, the sum of 2^64 largest squares
  // The last words count NaNs and infinities, so that they survive the integer addition.
  static constexpr int kNanWord = kBins;
  static constexpr int kInfWord = kBins + 1;
  static constexpr int kWords = kBins + 2;

  // Returns the sum as the nearest double; infinity or NaN if an infinite or NaN element was added.
  // words.size() == kWords.
  static double Decode(absl::Span<const int64_t> words);
  // Adds the square of one value, on the host, and normalises the words. It is the reference for
  // kernels.
  static void AddSquare(float value, absl::Span<int64_t> words);
  // Carries upwards until every word but the top one is in [0, 2^kBinBits), which makes the
  // representation of a number unique.
  static void Normalize(absl::Span<int64_t> words);
};

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
