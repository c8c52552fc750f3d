// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

namespace kernels {

// out[b, s] = table[tokens[b, s]] (+ positions[s]). tokens is int32 [batch, seq]; table is [vocab,
// dim]; positions is [max_seq, dim] or undefined; out is [batch, seq, dim]. A token outside [0,
// vocab) is InvalidArgument. If `part`, the table is a part of a larger one, and the token `vocab`
// stands for any token of another part (LocalIds), whose row counts as zeros.
absl::Status Embedding(Kernels& kernels, const Tensor& tokens, const Tensor& table,
                       const Tensor& positions, const Tensor& out, bool part = false);
// dtable[t] (+)= the sum of dout over the places where token t occurs. A CPU adds them in their
// order, a GPU in an order that depends on the shapes and tokens alone. Writes all of dtable.
absl::Status EmbeddingBackward(Kernels& kernels, const Tensor& tokens, const Tensor& dout,
                               const Tensor& dtable, bool accumulate, bool part = false);
// dpositions[s] (+)= the sum of dout[b, s] over b, in order; for rows from seq on the sum is zero.
absl::Status PositionBackward(Kernels& kernels, const Tensor& dout, const Tensor& dpositions,
                              bool accumulate);

}  // namespace kernels

// The checked arguments, except for the values of tokens, which the device checks.
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
// `gradient`, dtable or dpositions, holds sums of rows of dout.
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
