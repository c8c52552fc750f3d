// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Causal grouped-query attention on the CPU, forward and backward, tile by tile (Dao,
// "FlashAttention-2", 2023): no [seq, seq] tensor exists. Layouts and meaning as in AttentionArgs
// and AttentionBackwardArgs of kernels.h.

#ifndef ZEROTH_KERNELS_CPU_ATTENTION_H_
#define ZEROTH_KERNELS_CPU_ATTENTION_H_

#include "absl/status/status.h"

#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth::cpu {

// `lse` may be null. The shape is valid (kv_heads divides heads); empty shapes are legal. Fails
// only when the workspace is refused. The result does not depend on the number of threads.
absl::Status AttentionForward(const AttentionShape& shape, const float* qkv, float* out, float* lse,
                              Workspace& workspace);

// Overwrites the whole of `dqkv`. Scores are computed again from `qkv` and `lse`, so that forward
// keeps nothing else.
absl::Status AttentionBackward(const AttentionShape& shape, const float* dout, const float* qkv,
                               const float* out, const float* lse, float* dqkv,
                               Workspace& workspace);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_ATTENTION_H_
