// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Output projection and mean cross-entropy by their definition, in float64. For tests only.

#pragma once

#include <cstdint>
#include <vector>

namespace zeroth::reference {

struct LinearCrossEntropyOutput {
  double loss = 0.0;
  std::vector<double> dhidden;  // [rows, dim]
  std::vector<double> dweight;  // [vocab, dim]
};

// Loss and gradients of the loss. hidden [rows, dim], weight [vocab, dim]; rows whose target is
// -100 do not count. If `cap` is above 0, logits are cap * tanh(hidden weight^T / cap).
LinearCrossEntropyOutput LinearCrossEntropy(int64_t dim, int64_t vocab,
                                            const std::vector<double>& hidden,
                                            const std::vector<double>& weight,
                                            const std::vector<int32_t>& targets, double cap = 0);

}  // namespace zeroth::reference
