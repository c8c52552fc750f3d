// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Products of 8-bit floats by cuBLASLt. There is no other way to make them: what it has no
// algorithm for is refused, and not made in more bits.

#ifndef ZEROTH_KERNELS_FP8_FP8_GEMM_CUDA_H_
#define ZEROTH_KERNELS_FP8_FP8_GEMM_CUDA_H_

#include "absl/status/status.h"

#include "zeroth/kernels/cuda/cublaslt.h"
#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/fp8/fp8.h"

namespace zeroth::cuda {

// c^T = b a^T, by columns: b transposed and a as it is, the "TN" that Ada and Hopper ask for.
ProductKey KeyOf(const Fp8GemmCall& call);

// Enqueued on the stream of `blas`, which is target's. Unimplemented if cuBLASLt has no algorithm.
absl::Status Fp8Gemm(const Fp8GemmCall& call, CublasLt& blas, const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_FP8_FP8_GEMM_CUDA_H_
