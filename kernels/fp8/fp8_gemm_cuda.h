// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Matmuls of 8-bit floats by cuBLASLt. A matmul that it has no algorithm for is refused, not
// computed in a wider type.

#pragma once

#include "absl/status/status.h"

#include "zeroth/kernels/cuda/cublaslt.h"
#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/fp8/fp8.h"

namespace zeroth::cuda {

// Returns the key of c^T = b a^T, column-major: b is transposed and a is not, the "TN" layout that
// Ada and Hopper require.
MatmulKey KeyOf(const Fp8GemmCall& call);

// Enqueues on the stream of `blas`, which must be the stream of `target`. Unimplemented if cuBLASLt
// has no algorithm.
absl::Status Fp8Gemm(const Fp8GemmCall& call, CublasLt& blas, const LaunchTarget& target);

}  // namespace zeroth::cuda
