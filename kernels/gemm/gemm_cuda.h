// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Matmuls on a GPU. cuBLASLt computes them with its epilogues if it has an algorithm. If it has one
// only without the epilogue, our own epilogue follows. Otherwise our own plain kernel computes the
// matmul, about a hundred times slower, which large matmuls must allow (CublasLt::AllowSlowMatmul).

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/cuda/cublaslt.h"
#include "zeroth/kernels/gemm/plain_gemm.h"

namespace zeroth::cuda {

// Returns the key with which column-major cuBLASLt computes a row-major matmul: c^T = op(b)^T
// op(a)^T.
MatmulKey KeyOf(const GemmCall& call, bool allow_tf32);

// Returns the number of rows of `call` that pass through CublasLt::Staging() at a time to our own
// epilogue. 0 if fewer than 128 fit and the call has more rows than fit.
int64_t StagedRows(const GemmCall& call);

// Enqueues on the stream of `blas`, which must be the stream of `target`.
absl::Status Gemm(const GemmCall& call, CublasLt& blas, const LaunchTarget& target);

}  // namespace zeroth::cuda
