// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Results of transformers' Qwen3.5 in float64 and gradients by PyTorch's autograd, for one sequence
// of two documents; make_transformers_reference.py wrote them.

#pragma once

#include <cstdint>
#include <vector>

#include "zeroth/kernels/delta_net/delta_net.h"

namespace zeroth::reference {

struct TransformersDeltaNet {
  DeltaNetShape shape{1, 7, 2, 4, 3, 2};
  std::vector<int32_t> starts{0, 0, 0, 3, 3, 3, 3};
  // The convolution, four taps wide, of packed_dim channels. dy and dout are given.
  std::vector<double> x, weight, dy, y, dx, dweight;
  // The gated delta rule.
  std::vector<double> qkv, gates, log_decay, dt_bias, dout, out, dqkv, dgates, dlog_decay, ddt_bias;
};

const TransformersDeltaNet& FromTransformers();

}  // namespace zeroth::reference
