// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/strings/str_cat.h"

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

// For operations on packed tensors: checks that the shape is valid.
inline bool CheckAttentionShape(Operation& op, const AttentionShape& shape) {
  const bool sizes = shape.batch >= 0 && shape.seq >= 0 && shape.heads >= 0 &&
                     shape.kv_heads >= 0 && shape.head_dim >= 0 && shape.window >= 0;
  if (!op.Require(sizes, "shape", "has a negative size")) return false;
  const bool divides = shape.kv_heads > 0 ? shape.heads % shape.kv_heads == 0 : shape.heads == 0;
  return divides || op.Require(false, "shape",
                               absl::StrCat("has ", shape.heads, " heads and ", shape.kv_heads,
                                            " kv_heads, expected a divisor of heads"));
}

}  // namespace zeroth
