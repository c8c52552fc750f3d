// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_GEMM_CALL_H_
#define ZEROTH_KERNELS_CPU_GEMM_CALL_H_

#include <cstdint>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth::cpu {

// As GemmArgs of kernels.h. Row-major; `ld*` is the distance in elements from one stored row to the
// next, at least the stored width unless there is only one row. c overlaps neither a nor b. A size
// of zero is legal: with k = 0 the product is zero (bias and activation still apply).
struct GemmCall {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kFloat32;    // of a, b and bias: fp32, bf16 or fp16
  DType c_dtype = DType::kFloat32;  // of c, pre_activation and gelu_input: fp32, bf16 or fp16
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
  int64_t saved_ld = 0;              // of these two, if it is not n
  bool any_team = false;  // the same bits whatever the number of threads, see team_gemm.h
};

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_GEMM_CALL_H_
