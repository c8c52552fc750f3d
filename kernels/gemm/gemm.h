// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth {

// Applied to a matmul's result before it is stored.
enum class Activation : uint8_t { kNone, kGelu, kSilu };

// c = activation(op(a) op(b) + bias), or c += op(a) op(b). a, b and bias share one dtype; c may
// have another. Sums are fp32, and c is rounded once.
struct GemmArgs {
  Matrix a = {};  // [m, k], or [k, m] if transpose_a
  Matrix b = {};  // [k, n], or [n, k] if transpose_b
  Matrix c = {};  // [m, n]
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;                    // add to c; excludes bias and activation
  Tensor bias = {};                           // [n], or undefined for none
  Activation activation = Activation::kNone;  // kGelu is the tanh approximation
  // [m, n], c's dtype, or undefined. Receives the argument of the activation, which its backward
  // needs. Requires kGelu.
  Tensor pre_activation = {};
  // [m, n], c's dtype, or undefined. If defined, c = (op(a) op(b)) * gelu'(gelu_input): op(a) op(b)
  // is the gradient of a GELU's output, and c that of its input. Excludes bias, activation,
  // pre_activation and accumulate.
  Tensor gelu_input = {};
};

namespace kernels {

absl::Status Gemm(Kernels& kernels, const GemmArgs& args);
// dbias[n] (+)= the sum of dy [rows, n] over its rows. The order of the sum depends on the shape
// alone.
absl::Status BiasGradient(Kernels& kernels, const Matrix& dy, const Tensor& dbias, bool accumulate);

}  // namespace kernels

// The checked arguments. Matrices are row-major. `ld*` is the distance in elements from one stored
// row to the next; it is at least the stored width unless there is only one row. c overlaps neither
// a nor b. If k is 0, op(a) op(b) is zero, and bias and activation still apply.
struct GemmCall {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kFloat32;    // of a, b and bias
  DType c_dtype = DType::kFloat32;  // of c, pre_activation and gelu_input
  const void* a = nullptr;          // [m, k], or [k, m] if transpose_a
  int64_t lda = 0;
  bool transpose_a = false;
  const void* b = nullptr;  // [k, n], or [n, k] if transpose_b
  int64_t ldb = 0;
  bool transpose_b = false;
  void* c = nullptr;  // [m, n]
  int64_t ldc = 0;
  bool accumulate = false;     // add to c; excludes bias and activation
  const void* bias = nullptr;  // [n], or null
  Activation activation = Activation::kNone;
  void* pre_activation = nullptr;    // [m, n] contiguous, or null
  const void* gelu_input = nullptr;  // [m, n] contiguous, or null
  int64_t saved_ld = 0;              // row distance of these two, or 0 for n; CPU only
};
struct BiasGradientCall {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements between rows of dy
  DType dtype = DType::kFloat32;
  const void* dy = nullptr;
  bool accumulate = false;
  DType grad_dtype = DType::kFloat32;
  void* dbias = nullptr;
};

}  // namespace zeroth
