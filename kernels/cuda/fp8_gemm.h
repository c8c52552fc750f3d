// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Products of 8-bit floats by cuBLASLt. There is no other way to make them: what it has no
// algorithm for is refused, and not made in more bits.

#ifndef ZEROTH_KERNELS_CUDA_FP8_GEMM_H_
#define ZEROTH_KERNELS_CUDA_FP8_GEMM_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cuda/cublaslt.h"
#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/fp8.h"

namespace zeroth::cuda {

// Fields as in Fp8GemmArgs of kernels.h; row-major, operands' rows k apart.
struct Fp8GemmCall {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const void* a = nullptr;  // [m, k]
  Fp8Format a_format = Fp8Format::kE4M3;
  const float* a_scale = nullptr;
  const void* b = nullptr;  // [n, k]
  Fp8Format b_format = Fp8Format::kE4M3;
  const float* b_scale = nullptr;
  DType c_dtype = DType::kFloat32;  // of the bias, too
  void* c = nullptr;                // [m, n]
  int64_t ldc = 0;
  bool accumulate = false;
  const void* bias = nullptr;  // [n], or null
};

// c^T = b a^T, by columns: b transposed and a as it is, the "TN" that Ada and Hopper ask for.
ProductKey KeyOf(const Fp8GemmCall& call);

// Enqueued on the stream of `blas`, which is target's. Unimplemented if cuBLASLt has no algorithm.
absl::Status Fp8Gemm(const Fp8GemmCall& call, CublasLt& blas, const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_FP8_GEMM_H_
