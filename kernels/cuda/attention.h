// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Causal attention without a [seq, seq] tensor (Dao et al., "FlashAttention", 2022, and
// "FlashAttention-2", 2023), forward and backward, deterministic: gradients of keys and values are
// made by one kernel, those of queries by another, and nothing is added by atomics.

#ifndef ZEROTH_KERNELS_CUDA_ATTENTION_H_
#define ZEROTH_KERNELS_CUDA_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth::cuda {

// AttentionArgs as pointers; head_dim is at most kLargestHeadDim.
struct AttentionCall {
  AttentionShape shape;
  DType dtype = DType::kFloat32;
  const void* qkv = nullptr;
  void* out = nullptr;
  float* lse = nullptr;  // null: unwanted
};
struct AttentionBackwardCall {
  AttentionShape shape;
  DType dtype = DType::kFloat32;
  const void* dout = nullptr;
  const void* qkv = nullptr;
  const void* out = nullptr;
  const float* lse = nullptr;
  void* dqkv = nullptr;
  float* scratch = nullptr;  // AttentionBackwardScratch(shape) elements
};

inline constexpr int64_t kLargestHeadDim = 256;

absl::Status Attention(const AttentionCall& call, const LaunchTarget& target);
int64_t AttentionBackwardScratch(const AttentionShape& shape);
absl::Status AttentionBackward(const AttentionBackwardCall& call, const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_ATTENTION_H_
