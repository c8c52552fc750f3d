// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Causal grouped-query attention, tile by tile, so that no [seq, seq] tensor exists (Dao et al.,
// "FlashAttention", 2022; Dao, "FlashAttention-2", 2023). Of the tiles that a window or the
// beginning of a document hides as a whole none is read.

#ifndef ZEROTH_KERNELS_ATTENTION_ATTENTION_H_
#define ZEROTH_KERNELS_ATTENTION_ATTENTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/attention/attention_shape.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// Causal softmax(q k^T / sqrt(head_dim)) v, tile by tile with a running maximum (Dao et al.,
// "FlashAttention", 2022): no [seq, seq] tensor exists.
struct AttentionArgs {
  AttentionShape shape;
  Tensor qkv;  // [batch, seq, packed_dim]
  // Of documents that are packed into sequences, [batch, seq], int32: where in the sequence the
  // document of each token begins (DocumentStarts). Tokens attend within their document only.
  // Undefined: each sequence is one document.
  Tensor starts;
  Tensor out;  // [batch, seq, heads * head_dim]
  Tensor lse;  // [batch, heads, seq], fp32: log of each row's sum of exponentials, for backward;
               // undefined if unwanted
};

struct AttentionBackwardArgs {
  AttentionShape shape;
  Tensor dout;    // [batch, seq, heads * head_dim]
  Tensor qkv;     // [batch, seq, packed_dim]
  Tensor starts;  // as forward had it
  Tensor out;     // [batch, seq, heads * head_dim]
  Tensor lse;     // [batch, heads, seq]
  Tensor dqkv;    // [batch, seq, packed_dim], overwritten
};

// AttentionArgs::starts from a number for each token of `sequences` sequences, which changes where
// another document begins; the numbers count for nothing else.
std::vector<int32_t> DocumentStarts(absl::Span<const int32_t> ids, int64_t sequences);

namespace kernels {

absl::Status Attention(Kernels& kernels, const AttentionArgs& args);
// Scores are computed again from qkv and lse, so that forward keeps nothing else.
absl::Status AttentionBackward(Kernels& kernels, const AttentionBackwardArgs& args);
// In words, for people: what would compute attention of this shape and type, forward and backward,
// and why not cuDNN where it does not; empty where there is one way only. Unimplemented if
// KernelOptions::attention asks for what there is not.
absl::StatusOr<std::string> DescribeAttention(Kernels& kernels, const AttentionShape& shape,
                                              DType dtype, bool packed_documents = false);

}  // namespace kernels

// What devices compute. Empty shapes are legal.
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
// Of devices that have a choice.
struct DescribeAttentionCall {
  AttentionShape shape;
  DType dtype = DType::kFloat32;
  bool packed_documents = false;
  std::string* words = nullptr;
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_ATTENTION_ATTENTION_H_
