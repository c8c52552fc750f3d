// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Layer norm and RMS norm, which is layer norm without the mean and the bias.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth {

// LayerNorm: y = (x - mean) / sqrt(variance + eps) * gamma + beta over the last dimension, variance
// biased. RmsNorm: y = x / sqrt(mean(x^2) + eps) * gamma (Zhang and Sennrich, "Root mean square
// layer normalization", 2019), without beta and mean. `gamma_offset` is added to gamma first, in
// fp32: 1 in Gemma's norms, which scale by 1 + weight.
struct LayerNormArgs {
  Tensor x;         // [rows, dim] (leading dimensions are flattened here and below)
  Tensor residual;  // [rows, dim] or undefined
  Tensor sum;       // [rows, dim], with a residual: receives x + residual, rounded, which is then
                    // normalised, so that backward reads the same numbers. May be x or residual.
  Tensor gamma;     // [dim]
  Tensor beta;      // [dim]
  float gamma_offset = 0.0f;
  float eps = 1e-5f;
  Tensor y;     // [rows, dim]
  Tensor mean;  // [rows]
  Tensor rstd;  // [rows]
  // For RmsNorm if x holds only some columns of rows that are `width` wide: the sums of x^2 over
  // the whole rows, [rows] in fp32. Undefined if x holds whole rows.
  Tensor sums;
  int64_t width = 0;
};
using RmsNormArgs = LayerNormArgs;

// RmsNormBackward has neither mean nor dbeta. The order of the sums over rows depends only on the
// shape, the type, the alignment of the tensors and on which gradients are wanted.
struct LayerNormBackwardArgs {
  Tensor dy;     // [rows, dim]
  Tensor x;      // [rows, dim], the input of forward, or its `sum`
  Tensor gamma;  // [dim]
  float gamma_offset = 0.0f;
  Tensor mean;  // [rows]
  Tensor rstd;  // [rows]
  Tensor dx;    // [rows, dim]; may be dy
  bool accumulate_dx = false;
  Tensor dgamma;  // [dim], or undefined when frozen
  bool accumulate_dgamma = false;
  Tensor dbeta;  // [dim], or undefined when frozen
  bool accumulate_dbeta = false;
  // Like LayerNormArgs::sums, but of dy (gamma + gamma_offset) x rstd.
  Tensor sums;
  int64_t width = 0;
};
using RmsNormBackwardArgs = LayerNormBackwardArgs;

// sums[r] = the sum of x^2 over row r, or of dy (gamma + gamma_offset) x rstd if dy is defined. If
// ranks hold only some columns, each computes these sums, and their totals over ranks go to RmsNorm
// and RmsNormBackward.
struct RmsSumsArgs {
  Matrix x;      // [rows, cols]
  Matrix dy;     // [rows, cols], or undefined; as x
  Tensor gamma;  // [cols], with a dy; as x
  float gamma_offset = 0.0f;
  Tensor rstd;  // [rows], fp32, with a dy
  Tensor sums;  // [rows], fp32, overwritten
};

namespace kernels {

absl::Status LayerNorm(Kernels& kernels, const LayerNormArgs& args);
absl::Status LayerNormBackward(Kernels& kernels, const LayerNormBackwardArgs& args);
absl::Status RmsNorm(Kernels& kernels, const RmsNormArgs& args);
absl::Status RmsNormBackward(Kernels& kernels, const RmsNormBackwardArgs& args);
absl::Status RmsSums(Kernels& kernels, const RmsSumsArgs& args);

}  // namespace kernels

// The checked arguments; null for what is undefined. Both directions share these fields.
struct NormRowsCall {
  int64_t rows = 0;
  int64_t dim = 0;
  DType dtype = DType::kFloat32;  // of everything but statistics and parameters' gradients
  const void* x = nullptr;
  const void* gamma = nullptr;
  float gamma_offset = 0.0f;
  const float* sums = nullptr;
  int64_t width = 0;  // of whole rows: dim if there are no sums
};

// A norm without `mean` is RMS norm, and has no beta.
struct NormCall : NormRowsCall {
  const void* residual = nullptr;
  void* sum = nullptr;
  const void* beta = nullptr;
  float eps = 0;
  void* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
};

// dx may be dy.
struct NormBackwardCall : NormRowsCall {
  const void* dy = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  void* dx = nullptr;
  bool accumulate_dx = false;
  DType grad_dtype = DType::kFloat32;  // of dgamma and dbeta
  void* dgamma = nullptr;
  bool accumulate_dgamma = false;
  void* dbeta = nullptr;
  bool accumulate_dbeta = false;
};

struct RmsSumsCall {
  int64_t rows = 0;
  int64_t cols = 0;
  DType dtype = DType::kFloat32;
  const void* x = nullptr;
  int64_t x_stride = 0;
  const void* dy = nullptr;
  int64_t dy_stride = 0;
  const void* gamma = nullptr;
  float gamma_offset = 0.0f;
  const float* rstd = nullptr;
  float* sums = nullptr;
};

}  // namespace zeroth
