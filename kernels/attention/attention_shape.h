// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_ATTENTION_ATTENTION_SHAPE_H_
#define ZEROTH_KERNELS_ATTENTION_ATTENTION_SHAPE_H_

#include <cstdint>

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/operation.h"

namespace zeroth {

// Queries, keys and values of one layer lie side by side: [batch, seq, (heads + 2 * kv_heads) *
// head_dim], in this order. kv_heads divides heads; query head h reads key head h / (heads /
// kv_heads).
struct AttentionShape {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  // A token attends to this many, itself among them and otherwise those before it (Beltagy et al.,
  // "Longformer", 2020); 0: to all. What is left of the window costs nothing, tile by tile.
  int64_t window = 0;

  int64_t packed_dim() const { return (heads + 2 * kv_heads) * head_dim; }
};
inline bool IsEmpty(const AttentionShape& shape) {
  return shape.batch == 0 || shape.seq == 0 || shape.heads == 0 || shape.head_dim == 0;
}

// For operations on packed tensors: the shape is valid; `tensor` is such a tensor.
bool CheckAttentionShape(Operation& op, const AttentionShape& shape);
bool CheckPacked(Operation& op, const char* field, const Tensor& tensor,
                 const AttentionShape& shape, SharedType& type);

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_ATTENTION_ATTENTION_SHAPE_H_
