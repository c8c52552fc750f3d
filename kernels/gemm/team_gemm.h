// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_GEMM_TEAM_GEMM_H_
#define ZEROTH_KERNELS_GEMM_TEAM_GEMM_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth::cpu {

// A product of the call's kind on one thread.
using OneThreadProduct = absl::FunctionRef<absl::Status(const GemmCall&, Workspace&)>;

// The product with the same bits on any number of threads. oneDNN divides work by how many threads
// there are, for small c and many terms the terms too, which then add up in another order. Here c
// is cut into tiles, at places that its sizes alone decide, and each tile is one thread's
// `product`; m, n and k are above 0. Each tile packs what it multiplies by itself, and a product of
// a single tile has one thread. The error of one of them, if any fails.
absl::Status TeamGemm(const GemmCall& call, Workspace& workspace, OneThreadProduct product);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_GEMM_TEAM_GEMM_H_
