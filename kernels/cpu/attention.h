// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Causal grouped-query attention on the CPU, forward and backward, tile by tile (Dao,
// "FlashAttention-2", 2023): no [seq, seq] tensor exists. Layouts and meaning as in AttentionArgs
// and AttentionBackwardArgs of kernels.h.

#ifndef ZEROTH_KERNELS_CPU_ATTENTION_H_
#define ZEROTH_KERNELS_CPU_ATTENTION_H_

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth::cpu {

struct AttentionCall {
  AttentionShape shape;           // valid (kv_heads divides heads); empty shapes are legal
  DType dtype = DType::kFloat32;  // of qkv and out: fp32, bf16 or fp16
  const void* qkv = nullptr;
  void* out = nullptr;
  float* lse = nullptr;  // or null
};

struct AttentionBackwardCall {
  AttentionShape shape;
  DType dtype = DType::kFloat32;  // of all but lse
  const void* dout = nullptr;
  const void* qkv = nullptr;
  const void* out = nullptr;
  const float* lse = nullptr;
  void* dqkv = nullptr;  // all of it is overwritten
};

// Both fail only when the workspace is refused. The result does not depend on the number of
// threads.
absl::Status AttentionForward(const AttentionCall& call, Workspace& workspace);

// Scores are computed again from `qkv` and `lse`, so that forward keeps nothing else.
absl::Status AttentionBackward(const AttentionBackwardCall& call, Workspace& workspace);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_ATTENTION_H_
