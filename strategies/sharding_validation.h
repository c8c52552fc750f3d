// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What Sharding::Create refuses.

#ifndef ZEROTH_STRATEGIES_SHARDING_VALIDATION_H_
#define ZEROTH_STRATEGIES_SHARDING_VALIDATION_H_

#include <vector>

#include "absl/status/status.h"

#include "zeroth/strategies/sharding.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// InvalidArgument unless the options and the units fit each other, a world of this size, and what
// the strategy serves. Units have their own or the options' collectives already.
absl::Status ValidateSharding(const ShardingOptions& options, const std::vector<UnitSpec>& units,
                              const ShardingStrategy& strategy, int world_size);

// InvalidArgument if what the optimizer is to read is of another type than where the unit has it.
absl::Status ExpectGradientsFit(const Unit& unit);

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_SHARDING_VALIDATION_H_
