// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_GEMM_BF16_MATMUL_H_
#define ZEROTH_KERNELS_GEMM_BF16_MATMUL_H_

#include "absl/status/status.h"

#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth::cpu {

// Gemm() of bf16 operands by oneDNN's matmul primitive. Where c is a sum, with or without a bias,
// oneDNN writes it; otherwise blocks of columns pass through the workspace as fp32. Prepared
// products are kept per thread and found again by their sizes. call.dtype is bf16, m, n and k are
// positive; Internal where oneDNN has no implementation, which HasNativeBf16Products(k) tells.
absl::Status Bf16Matmul(const GemmCall& call, Workspace& workspace);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_GEMM_BF16_MATMUL_H_
