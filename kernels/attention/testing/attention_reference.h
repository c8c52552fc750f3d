// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Causal grouped-query attention by its definition, one row of scores at a time, in float64. For
// tests only.

#pragma once

#include <cstdint>
#include <vector>

#include "zeroth/kernels/attention/attention.h"

namespace zeroth::reference {

struct AttentionOutput {
  std::vector<double> out;  // [batch, seq, heads * head_dim]
  std::vector<double> lse;  // [batch, heads, seq]
};

// Layouts as in AttentionArgs. `sinks` has the logit of each head's sink (sinks.h), or none.
AttentionOutput Attention(const AttentionShape& shape, const std::vector<double>& qkv,
                          const std::vector<int32_t>& starts = {},
                          const std::vector<double>& sinks = {});

// Returns dqkv, and adds to `dsinks` unless it is null. Keeps nothing of forward: probabilities are
// computed again from qkv.
std::vector<double> AttentionBackward(const AttentionShape& shape, const std::vector<double>& dout,
                                      const std::vector<double>& qkv,
                                      const std::vector<int32_t>& starts = {},
                                      const std::vector<double>& sinks = {},
                                      std::vector<double>* dsinks = nullptr);

}  // namespace zeroth::reference
