// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/layers/moe.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// InvalidArgument unless `rate` is 0 or the biases of `layers` can be moved: it is finite and at
// least 0, and some layer has a RouterBias, which is not offloaded.
absl::Status ValidateRouterBiasRate(double rate, absl::Span<MoeMlp* const> layers,
                                    const Sharding& sharding);

// Moves the biases of routers after a step (Wang et al., "Auxiliary-loss-free load balancing",
// 2024): each by rate * sign(mean - tokens of its expert). `counts` has the tokens of each expert
// of the global batch, layer by layer, the same on every rank, as the biases then are. Enqueued;
// call it between steps.
absl::Status UpdateRouterBiases(Sharding& sharding, Kernels& kernels,
                                absl::Span<MoeMlp* const> layers, absl::Span<const int64_t> counts,
                                float rate);

}  // namespace zeroth
