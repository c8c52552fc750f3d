// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_CPU_H_
#define ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_CPU_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace zeroth::cpu {

// The logits of a chunk stay below this, as long as a chunk has kMinChunkRows: every chunk reads
// the weight twice and its gradient once more, so that short chunks starve the products.
inline constexpr int64_t kChunkBytes = int64_t{64} << 20;
inline constexpr int64_t kMinChunkRows = 64;

// Rows whose logits exist at once, for these sizes: the fewest chunks within the limits, equally
// long but for the last.
int64_t LinearCrossEntropyChunkRows(int64_t rows, int64_t vocab);

// InvalidArgument names the row and value of the first target outside [0, vocab) that is not
// kIgnoredTarget; nothing has been written then. Otherwise fails as Gemm() and the workspaces do.
// The sum over rows is the same whatever the chunks. The products have a workspace of their own.
// A dweight that is not fp32 is rounded once: if there are several chunks, their sum takes [vocab,
// dim] fp32 of `workspace`.
absl::Status LinearCrossEntropy(const LinearCrossEntropyCall& call, Workspace& workspace,
                                Workspace& gemm_workspace);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_CPU_H_
