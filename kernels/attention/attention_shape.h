// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_ATTENTION_ATTENTION_SHAPE_H_
#define ZEROTH_KERNELS_ATTENTION_ATTENTION_SHAPE_H_

#include <cstdint>

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/operation.h"

namespace zeroth {

// The queries, keys and values of one layer lie side by side, in this order: [batch, seq, (heads +
// 2 * kv_heads) * head_dim]. kv_heads divides heads; query head h reads key head h / (heads /
// kv_heads).
struct AttentionShape {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  // Sliding window (Beltagy et al., "Longformer", 2020): a token attends to this many tokens,
  // itself and those before it; 0 for all. Tiles outside of the window cost nothing.
  int64_t window = 0;

  int64_t packed_dim() const { return (heads + 2 * kv_heads) * head_dim; }
};
inline bool IsEmpty(const AttentionShape& shape) {
  return shape.batch == 0 || shape.seq == 0 || shape.heads == 0 || shape.head_dim == 0;
}

// For operations on packed tensors: check that the shape is valid, and that `tensor` has it.
bool CheckAttentionShape(Operation& op, const AttentionShape& shape);
bool CheckPacked(Operation& op, const char* field, const Tensor& tensor,
                 const AttentionShape& shape, SharedType& type);

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_ATTENTION_ATTENTION_SHAPE_H_
