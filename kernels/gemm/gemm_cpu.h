// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// fp32 and bf16 matrix products on the CPU, by oneDNN.

#ifndef ZEROTH_KERNELS_GEMM_GEMM_CPU_H_
#define ZEROTH_KERNELS_GEMM_GEMM_CPU_H_

#include "absl/status/status.h"

#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth::cpu {

// Done on return, on omp_get_max_threads() threads. The caller has checked shapes, strides and
// dtypes; with call.any_team c's bits do not depend on how many threads those are. Internal carries
// the error of oneDNN, and `workspace` may refuse. Calls on different threads share nothing that
// changes, given a workspace each.
absl::Status Gemm(const GemmCall& call, Workspace& workspace);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_GEMM_GEMM_CPU_H_
