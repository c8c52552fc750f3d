// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// fp32 matrix products on the CPU, by oneDNN.

#ifndef ZEROTH_KERNELS_CPU_GEMM_H_
#define ZEROTH_KERNELS_CPU_GEMM_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/kernels.h"

namespace zeroth::cpu {

// c = activation(op(a) op(b) + bias), or c += op(a) op(b). Row-major; `ld*` is the distance in
// elements from one stored row to the next, at least the stored width unless there is only one row.
// c overlaps neither a nor b. A size of zero is legal: with k = 0 the product is zero (bias and
// activation still apply).
struct GemmCall {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const float* a = nullptr;  // [m, k], or [k, m] if transpose_a
  int64_t lda = 0;
  bool transpose_a = false;
  const float* b = nullptr;  // [k, n], or [n, k] if transpose_b
  int64_t ldb = 0;
  bool transpose_b = false;
  float* c = nullptr;  // [m, n]
  int64_t ldc = 0;
  bool accumulate = false;      // add to c; excludes bias and activation
  const float* bias = nullptr;  // [n], or null
  Activation activation = Activation::kNone;
};

// Done on return, on omp_get_max_threads() threads. The caller has checked shapes and strides;
// Internal carries the error of oneDNN. Thread-safe: calls share nothing that changes.
absl::Status Gemm(const GemmCall& call);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_GEMM_H_
