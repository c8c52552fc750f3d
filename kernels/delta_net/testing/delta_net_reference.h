// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The definitions of delta_net.h in float64, token by token. `starts` may be empty.

#pragma once

#include <cstdint>
#include <vector>

#include "zeroth/kernels/delta_net/delta_net.h"

namespace zeroth::reference {

// x [batch, seq, channels], weight [channels, width].
std::vector<double> ShortConvolution(int64_t batch, int64_t seq, int64_t channels, int64_t width,
                                     const std::vector<int32_t>& starts,
                                     const std::vector<double>& x,
                                     const std::vector<double>& weight);

// The inputs of GatedDeltaRule, in their order there.
struct DeltaRuleInputs {
  std::vector<double> qkv, gates, log_decay, dt_bias;
};
// `state` [batch, value_heads, key_dim, value_dim] goes in as the initial state and comes out as
// the final one. Null: zero.
std::vector<double> GatedDeltaRule(const DeltaNetShape& shape, const std::vector<int32_t>& starts,
                                   const DeltaRuleInputs& inputs,
                                   std::vector<double>* state = nullptr);

}  // namespace zeroth::reference
