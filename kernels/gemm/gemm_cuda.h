// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Matrix products on a GPU: by cuBLASLt with its epilogues where it has an algorithm; if it has one
// for the product alone, with an epilogue of ours; otherwise by a plain kernel of our own, which is
// a hundred times slower: a large product only where that is allowed (CublasLt::AdmitSlow).

#ifndef ZEROTH_KERNELS_GEMM_GEMM_CUDA_H_
#define ZEROTH_KERNELS_GEMM_GEMM_CUDA_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/cuda/cublaslt.h"
#include "zeroth/kernels/gemm/plain_gemm.h"

namespace zeroth::cuda {

// How cuBLASLt, which is column-major, is asked for a row-major product: c^T = op(b)^T op(a)^T. A
// row-major matrix read by columns is its transpose, so operands change places and nothing is
// moved.
ProductKey KeyOf(const GemmCall& call, bool allow_tf32);

// How many rows of `call` pass through CublasLt::Staging() at a time to an epilogue of ours; 0 if
// not even 128 do, unless there are fewer.
int64_t StagedRows(const GemmCall& call);

// Enqueued on the stream of `blas`, which is target's.
absl::Status Gemm(const GemmCall& call, CublasLt& blas, const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_GEMM_GEMM_CUDA_H_
