// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_GEMM_SGEMM_H_
#define ZEROTH_KERNELS_GEMM_SGEMM_H_

#include "absl/status/status.h"

#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth::cpu {

// c = op(a) op(b), or c += op(a) op(b) if call.accumulate: all fp32, k > 0; the rest of the call is
// not looked at. On omp_get_max_threads() threads. Internal carries the error of oneDNN.
absl::Status Sgemm(const GemmCall& call);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_GEMM_SGEMM_H_
