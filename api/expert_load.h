// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace zeroth {

// How the tokens of a step were routed to experts, over all ranks and micro-batches.
struct ExpertLoad {
  double largest = 0;  // tokens of the most used expert over the mean of its layer, in any layer
  double unused = 0;   // fraction of all experts to which no token was routed
};

// Computes the load of layers with `experts` experts each. `counts` has the tokens of each expert,
// layer by layer, in any common unit. nullopt without experts or tokens.
std::optional<ExpertLoad> LoadOf(absl::Span<const int64_t> experts, absl::Span<const float> counts);

}  // namespace zeroth
