// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_EMBEDDING_EMBEDDING_H_
#define ZEROTH_KERNELS_EMBEDDING_EMBEDDING_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

namespace kernels {

// out[b, s] = table[tokens[b, s]] (+ positions[s]). tokens int32 [batch, seq]; table [vocab, dim];
// positions [max_seq, dim] or undefined; out [batch, seq, dim]. A token outside [0, vocab) is
// InvalidArgument. Of a table that is a `part` of one (LocalIds), `vocab` is the token that is
// elsewhere, whose row is zeros.
absl::Status Embedding(Kernels& kernels, const Tensor& tokens, const Tensor& table,
                       const Tensor& positions, const Tensor& out, bool part = false);
// dtable[t] (+)= sum of dout over the places of t, on a CPU in their order, on a GPU in one that
// the shapes decide. The whole of dtable is written.
absl::Status EmbeddingBackward(Kernels& kernels, const Tensor& tokens, const Tensor& dout,
                               const Tensor& dtable, bool accumulate, bool part = false);
// dpositions[s] (+)= sum of dout[b, s] over b; rows from seq on count as zeros.
absl::Status PositionBackward(Kernels& kernels, const Tensor& dout, const Tensor& dpositions,
                              bool accumulate);

}  // namespace kernels

// What devices compute. Tokens are the device's to check.
struct EmbeddingCall {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t vocab = 0;
  int64_t dim = 0;
  DType dtype = DType::kFloat32;
  const int32_t* tokens = nullptr;
  const void* table = nullptr;
  const void* positions = nullptr;  // or null
  void* out = nullptr;
  bool part = false;
};
// `gradient` is a sum of rows of dout: dtable, or dpositions.
struct RowGradients {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t rows = 0;  // of the gradient
  int64_t dim = 0;
  DType dtype = DType::kFloat32;
  const void* dout = nullptr;
  bool accumulate = false;
  DType grad_dtype = DType::kFloat32;
  void* gradient = nullptr;
};
struct EmbeddingBackwardCall : RowGradients {
  const int32_t* tokens = nullptr;
  bool part = false;
};
struct PositionBackwardCall : RowGradients {};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_EMBEDDING_EMBEDDING_H_
