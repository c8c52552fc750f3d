// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_GEMM_WIDENED_GEMM_H_
#define ZEROTH_KERNELS_GEMM_WIDENED_GEMM_H_

#include "absl/status/status.h"

#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth::cpu {

// Gemm() of bf16 or fp16 operands in fp32 instructions, for CPUs whose own are missing or slower:
// blocks of the operands are widened into the workspace, at most 12 MiB of it, and multiplied
// there. call.dtype is bf16 or fp16, m, n and k are positive.
absl::Status WidenedGemm(const GemmCall& call, Workspace& workspace);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_GEMM_WIDENED_GEMM_H_
