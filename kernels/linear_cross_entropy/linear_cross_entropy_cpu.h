// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_CPU_H_
#define ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_CPU_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace zeroth::cpu {

// The logits of a chunk take at most this much memory, unless the chunk has only kMinChunkRows.
// Every chunk reads the weight twice and its gradient once, so that products with few rows are
// slow.
inline constexpr int64_t kChunkBytes = int64_t{64} << 20;
inline constexpr int64_t kMinChunkRows = 64;

// Returns the number of rows in a chunk, whose logits exist at once: there are as few chunks as the
// limits allow, equally long except for the last.
int64_t LinearCrossEntropyChunkRows(int64_t rows, int64_t vocab);

// Computes loss and gradients. InvalidArgument names the row and value of the first target outside
// [0, vocab) that is not kIgnoredTarget; nothing has been written then. Otherwise fails as Gemm()
// and the workspaces do. The loss does not depend on the division into chunks. Products use
// `gemm_workspace`. A dweight that is not fp32 is rounded once: if there are several chunks, their
// sum takes [vocab, dim] fp32 of `workspace`.
absl::Status LinearCrossEntropy(const LinearCrossEntropyCall& call, Workspace& workspace,
                                Workspace& gemm_workspace);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_CPU_H_
