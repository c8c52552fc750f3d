// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Causal grouped-query attention, computed in tiles so that no [seq, seq] tensor exists (Dao et
// al., "FlashAttention", 2022; Dao, "FlashAttention-2", 2023). Tiles that a window or the beginning
// of a document hides entirely are not read. Sums have a fixed order, so that both passes are
// deterministic, unless KernelOptions::attention_determinism is false.

#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

class Operation;

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
  // Factor of the scores q k^T; 0 for 1 / sqrt(head_dim).
  float scale = 0;
  // Above 0: a scaled score s becomes cap * tanh(s / cap) before the softmax (Gemma Team, "Gemma
  // 2", 2024, section 2); 0: scores are not capped.
  float cap = 0;

  float score_scale() const {
    return scale > 0 ? scale : 1.0f / std::sqrt(static_cast<float>(head_dim));
  }
  int64_t packed_dim() const { return (heads + 2 * kv_heads) * head_dim; }
};
inline bool IsEmpty(const AttentionShape& shape) {
  return shape.batch == 0 || shape.seq == 0 || shape.heads == 0 || shape.head_dim == 0;
}
// Checks the shape, for operations on packed tensors.
bool CheckAttentionShape(Operation& op, const AttentionShape& shape);

// out = causal softmax(scores) v, for each head; AttentionShape has the scale and cap of scores.
struct AttentionArgs {
  AttentionShape shape;
  Tensor qkv;  // [batch, seq, packed_dim]
  // For documents that are packed into sequences: [batch, seq], int32, where in the sequence the
  // document of each token begins (DocumentStarts). Tokens then attend within their document only.
  // Undefined if each sequence is one document.
  Tensor starts;
  Tensor out;  // [batch, seq, heads * head_dim]
  Tensor lse;  // [batch, heads, seq], fp32: the log of each row's sum of exponentials, for
               // backward; may be undefined
};

struct AttentionBackwardArgs {
  AttentionShape shape;
  Tensor dout;    // [batch, seq, heads * head_dim]
  Tensor qkv;     // [batch, seq, packed_dim]
  Tensor starts;  // as in forward
  Tensor out;     // [batch, seq, heads * head_dim]
  Tensor lse;     // [batch, heads, seq]
  Tensor dqkv;    // [batch, seq, packed_dim], overwritten
};

// For generation, where a few new tokens attend to earlier ones whose keys and values are kept:
// computes what Attention computes for the last `shape.seq` tokens of one sequence of `past +
// shape.seq` tokens.
struct CachedAttentionArgs {
  AttentionShape shape;  // of the new tokens; batch is 1
  Tensor qkv;            // [1, seq, packed_dim]
  // [capacity, 2 * kv_heads * head_dim]: each row holds the keys of a token, then its values. Rows
  // [0, past) are read; rows [past, past + seq) are written, from qkv.
  Tensor cache;
  int64_t past = 0;
  Tensor out;  // [1, seq, heads * head_dim]
  Tensor lse;  // [1, heads, seq], as AttentionArgs::lse; may be undefined
};

// Returns AttentionArgs::starts for `sequences` sequences. `ids` has a number for each token, which
// changes where another document begins; its value has no other meaning.
std::vector<int32_t> DocumentStarts(absl::Span<const int32_t> ids, int64_t sequences);

namespace kernels {

absl::Status Attention(Kernels& kernels, const AttentionArgs& args);
// Recomputes the scores from qkv and lse, so that forward need not keep them.
absl::Status AttentionBackward(Kernels& kernels, const AttentionBackwardArgs& args);
absl::Status CachedAttention(Kernels& kernels, const CachedAttentionArgs& args);
// Describes in words which implementation would compute attention of this shape and type, forward
// and backward, and why cuDNN would not. Empty if the device has only one. Unimplemented if the
// device lacks the one that KernelOptions::attention asks for.
absl::StatusOr<std::string> DescribeAttention(Kernels& kernels, const AttentionShape& shape,
                                              DType dtype, bool packed_documents = false);

}  // namespace kernels

// The checked arguments. Shapes may be empty.
struct AttentionCall {
  AttentionShape shape;
  DType dtype = DType::kFloat32;  // of qkv and out
  const void* qkv = nullptr;
  const int32_t* starts = nullptr;  // or null
  void* out = nullptr;
  float* lse = nullptr;  // or null
};
struct AttentionBackwardCall {
  AttentionShape shape;
  DType dtype = DType::kFloat32;  // of all but lse
  const void* dout = nullptr;
  const void* qkv = nullptr;
  const int32_t* starts = nullptr;  // or null
  const void* out = nullptr;
  const float* lse = nullptr;
  void* dqkv = nullptr;  // all of it is overwritten
};
struct CachedAttentionCall {
  AttentionShape shape;
  DType dtype = DType::kFloat32;  // of all
  const void* qkv = nullptr;
  void* cache = nullptr;
  int64_t past = 0;
  void* out = nullptr;
  float* lse = nullptr;  // or null
};
// Only devices with several implementations register this.
struct DescribeAttentionCall {
  AttentionShape shape;
  DType dtype = DType::kFloat32;
  bool packed_documents = false;
  std::string* words = nullptr;
};

}  // namespace zeroth
