// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_GEMM_CALL_H_
#define ZEROTH_KERNELS_CUDA_GEMM_CALL_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth::cuda {

// GemmArgs as numbers and pointers: row-major; `ld*` is the distance in elements from one stored
// row to the next.
struct GemmCall {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kFloat32;  // of a, b and bias
  DType c_dtype = DType::kFloat32;
  const void* a = nullptr;  // [m, k], or [k, m] if transpose_a
  int64_t lda = 0;
  bool transpose_a = false;
  const void* b = nullptr;  // [k, n], or [n, k] if transpose_b
  int64_t ldb = 0;
  bool transpose_b = false;
  void* c = nullptr;  // [m, n]
  int64_t ldc = 0;
  bool accumulate = false;
  const void* bias = nullptr;  // [n]
  Activation activation = Activation::kNone;
  void* pre_activation = nullptr;    // [m, n], rows n apart
  const void* gelu_input = nullptr;  // [m, n], rows n apart
};

// By a kernel of our own: any shapes, strides and types; slow.
absl::Status PlainGemm(const GemmCall& call, const LaunchTarget& target);

// The rest of `call`, which does not accumulate, for rows [begin, begin + rows) of c, given their
// product [rows, n].
absl::Status ApplyEpilogue(const GemmCall& call, int64_t begin, int64_t rows, const float* product,
                           const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_GEMM_CALL_H_
