// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Attention of tokens that follow others whose keys and values are kept: generation, a few tokens
// at a time.

#ifndef ZEROTH_KERNELS_ATTENTION_CACHED_ATTENTION_H_
#define ZEROTH_KERNELS_ATTENTION_CACHED_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/attention/attention_shape.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// What Attention computes for the last `shape.seq` tokens of one sequence of `past + shape.seq`.
struct CachedAttentionArgs {
  AttentionShape shape;  // of the new tokens; batch is 1
  Tensor qkv;            // [1, seq, packed_dim]
  // [capacity, 2 * kv_heads * head_dim]: of each token its keys, then its values. Rows [0, past)
  // are read; rows [past, past + seq) are written, from qkv.
  Tensor cache;
  int64_t past = 0;
  Tensor out;  // [1, seq, heads * head_dim]
};

namespace kernels {

absl::Status CachedAttention(Kernels& kernels, const CachedAttentionArgs& args);

}  // namespace kernels

// What devices compute. Empty shapes are legal.
struct CachedAttentionCall {
  AttentionShape shape;
  DType dtype = DType::kFloat32;  // of all
  const void* qkv = nullptr;
  void* cache = nullptr;
  int64_t past = 0;
  void* out = nullptr;
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_ATTENTION_CACHED_ATTENTION_H_
