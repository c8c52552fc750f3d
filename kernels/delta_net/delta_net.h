// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The two parts of a gated DeltaNet layer that are not matmuls (Yang et al., "Gated Delta Networks:
// Improving Mamba2 with Delta Rule", 2025): a short causal convolution, and linear attention whose
// state is a matrix for each head. Both begin anew with each document of a packed sequence. Forward
// also computes a sequence in pieces, to the same bits: the final state of a piece is the initial
// state of the next. Packed documents cannot be computed in pieces.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// The most taps of a ShortConvolution, and the most elements of a key of GatedDeltaRule.
inline constexpr int64_t kMostTaps = 8;
inline constexpr int64_t kMostKeyDim = 256;
// Forward saves the state every kDeltaChunk tokens; backward recomputes the states between.
inline constexpr int64_t kDeltaChunk = 64;

// y[t] = silu(the sum over i of weight[i] x[t - (width - 1) + i]), for each channel. Taps that
// reach beyond the beginning of the token's document add nothing.
struct ShortConvolutionArgs {
  Tensor x;       // [batch, seq, channels]
  Tensor weight;  // [channels, 1, width], with a width of 1 to kMostTaps
  Tensor starts;  // as AttentionArgs::starts
  Tensor y;       // [batch, seq, channels]
  // [batch, width - 1, channels]: the inputs just before the sequence, oldest first. Undefined:
  // zeros. Only without starts.
  Tensor initial_state;
  // The last width - 1 inputs after the sequence; may be undefined. Only without starts. Must not
  // overlap initial_state.
  Tensor final_state;
};
struct ShortConvolutionBackwardArgs {
  Tensor dy;
  Tensor x;
  Tensor weight;
  Tensor starts;
  Tensor dx;       // overwritten
  Tensor dweight;  // [channels, 1, width]; undefined: not computed
  bool accumulate_dweight = false;
};

// Value head h reads the keys and queries of key head h / (value_heads / key_heads).
struct DeltaNetShape {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t key_heads = 0;  // divides value_heads
  int64_t value_heads = 0;
  int64_t key_dim = 0;    // of a head; at most kMostKeyDim
  int64_t value_dim = 0;  // of a head
  constexpr int64_t packed_dim() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
  constexpr int64_t chunks() const { return (seq + kDeltaChunk - 1) / kDeltaChunk; }
};

// For each value head, with q and k divided by their lengths (the square root of the sum of squares
// + 1e-6), and q also by sqrt(key_dim):
//   S_t = e^g_t S_(t-1) + k_t d_t^T,   d_t = sigmoid(b_t) (v_t - (e^g_t S_(t-1))^T k_t)
//   out_t = S_t^T q_t,   g_t = -e^log_decay softplus(a_t + dt_bias)
// S [key_dim, value_dim] is fp32. It starts at initial_state if given (then there are no starts),
// otherwise at zero for each document.
struct GatedDeltaRuleArgs {
  DeltaNetShape shape;
  Tensor qkv;        // [batch, seq, packed_dim]: queries, keys, values
  Tensor gates;      // [batch, seq, 2 * value_heads]: b, then a
  Tensor log_decay;  // [value_heads]
  Tensor dt_bias;    // [value_heads]
  Tensor starts;     // as AttentionArgs::starts
  Tensor out;        // [batch, seq, value_heads * value_dim]
  // fp32 [batch, value_heads, chunks, key_dim, value_dim]: the state before each chunk of
  // kDeltaChunk tokens, for backward; may be undefined.
  Tensor states;
  // fp32 [batch, value_heads, key_dim, value_dim]: S before the first token. Undefined: zero. Only
  // without starts and states.
  Tensor initial_state;
  // S after the last token; may be undefined. Only without starts. May be initial_state, but must
  // not overlap a part of it.
  Tensor final_state;
};
struct GatedDeltaRuleBackwardArgs {
  DeltaNetShape shape;
  Tensor dout;
  Tensor qkv;
  Tensor gates;
  Tensor log_decay;
  Tensor dt_bias;
  Tensor starts;
  Tensor states;      // those of forward
  Tensor dqkv;        // overwritten
  Tensor dgates;      // overwritten
  Tensor dlog_decay;  // undefined: not computed
  Tensor ddt_bias;    // undefined: not computed
  bool accumulate_dlog_decay = false;
  bool accumulate_ddt_bias = false;
};

namespace kernels {

absl::Status ShortConvolution(Kernels& kernels, const ShortConvolutionArgs& args);
absl::Status ShortConvolutionBackward(Kernels& kernels, const ShortConvolutionBackwardArgs& args);
absl::Status GatedDeltaRule(Kernels& kernels, const GatedDeltaRuleArgs& args);
absl::Status GatedDeltaRuleBackward(Kernels& kernels, const GatedDeltaRuleBackwardArgs& args);

}  // namespace kernels

// The checked arguments. Shapes may be empty.
struct ShortConvolutionCall {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t channels = 0;
  int64_t width = 0;
  DType dtype = DType::kFloat32;
  const void* x = nullptr;
  const void* weight = nullptr;
  const int32_t* starts = nullptr;  // or null
  void* y = nullptr;
  const void* initial_state = nullptr;  // or null
  void* final_state = nullptr;          // or null
};
struct ShortConvolutionBackwardCall {
  ShortConvolutionCall forward;  // without y and states
  const void* dy = nullptr;
  void* dx = nullptr;
  DType grad_dtype = DType::kFloat32;
  void* dweight = nullptr;  // or null
  bool accumulate_dweight = false;
};
struct GatedDeltaRuleCall {
  DeltaNetShape shape;
  DType dtype = DType::kFloat32;
  const void* qkv = nullptr;
  const void* gates = nullptr;
  const void* log_decay = nullptr;
  const void* dt_bias = nullptr;
  const int32_t* starts = nullptr;  // or null
  void* out = nullptr;
  float* states = nullptr;               // or null
  const float* initial_state = nullptr;  // or null
  float* final_state = nullptr;          // or null
};
struct GatedDeltaRuleBackwardCall {
  GatedDeltaRuleCall forward;  // without out, initial_state and final_state
  const void* dout = nullptr;
  void* dqkv = nullptr;
  void* dgates = nullptr;
  DType grad_dtype = DType::kFloat32;
  void* dlog_decay = nullptr;  // or null
  void* ddt_bias = nullptr;    // or null
  bool accumulate_dlog_decay = false;
  bool accumulate_ddt_bias = false;
};

}  // namespace zeroth
