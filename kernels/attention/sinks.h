// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Attention sinks (Xiao et al., "Efficient streaming language models with attention sinks", 2024,
// section 3.3; OpenAI, "gpt-oss-120b & gpt-oss-20b model card", 2025): each head has a learned
// logit, which joins the softmax of every row as a key without a value.
//
// They follow any implementation of attention, because its result and log-sum-exp suffice: with
// sink z, lse' = log(e^lse + e^z) and out' = out * e^(lse - lse'). AttentionBackward with out' and
// lse' is then exact for queries, keys and values, since it recomputes probabilities as
// e^(score - lse') and subtracts dout . out', to which the sink adds nothing.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// Changes the result of Attention or CachedAttention in place to that with sinks.
struct AttentionSinksArgs {
  Tensor sinks;  // [heads], dtype of out
  Tensor out;    // [batch, seq, heads * head_dim]
  Tensor lse;    // [batch, heads, seq], fp32
};

// The gradient of each row's sink: -e^(sink - lse) * dout . out. Its sum over rows (BiasGradient)
// is the gradient of the sinks.
struct SinkGradientArgs {
  Tensor sinks;     // [heads], dtype of out
  Tensor dout;      // [batch, seq, heads * head_dim]
  Tensor out;       // as AttentionSinks has left it
  Tensor lse;       // as AttentionSinks has left it
  Tensor gradient;  // [batch, seq, heads], fp32, overwritten
};

namespace kernels {

absl::Status AttentionSinks(Kernels& kernels, const AttentionSinksArgs& args);
absl::Status SinkGradient(Kernels& kernels, const SinkGradientArgs& args);

}  // namespace kernels

// The checked arguments. Both calls share these fields.
struct SinkRowsCall {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  DType dtype = DType::kFloat32;  // of sinks, out and dout
  const void* sinks = nullptr;

  // Returns the place in lse of a row of `batch * seq`.
  constexpr int64_t Statistic(int64_t row, int64_t head) const {
    return (row / seq * heads + head) * seq + row % seq;
  }
};
struct AttentionSinksCall : SinkRowsCall {
  void* out = nullptr;
  float* lse = nullptr;
};
struct SinkGradientCall : SinkRowsCall {
  const void* dout = nullptr;
  const void* out = nullptr;
  const float* lse = nullptr;
  float* gradient = nullptr;
};

}  // namespace zeroth
