// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Attention with a key/value cache, for generation: a few new tokens attend to earlier ones whose
// keys and values are kept. Deterministic.

#ifndef ZEROTH_KERNELS_ATTENTION_CACHED_ATTENTION_H_
#define ZEROTH_KERNELS_ATTENTION_CACHED_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/attention/attention_shape.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// Computes what Attention computes for the last `shape.seq` tokens of one sequence of `past +
// shape.seq` tokens.
struct CachedAttentionArgs {
  AttentionShape shape;  // of the new tokens; batch is 1
  Tensor qkv;            // [1, seq, packed_dim]
  // [capacity, 2 * kv_heads * head_dim]: each row holds the keys of a token, then its values. Rows
  // [0, past) are read; rows [past, past + seq) are written, from qkv.
  Tensor cache;
  int64_t past = 0;
  Tensor out;  // [1, seq, heads * head_dim]
};

namespace kernels {

absl::Status CachedAttention(Kernels& kernels, const CachedAttentionArgs& args);

}  // namespace kernels

// The checked arguments. Shapes may be empty.
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
