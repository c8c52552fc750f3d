// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/no_shard/no_shard.h"

#include <memory>

namespace zeroth {

StatePlacement NoShard::placement() const { return {}; }

absl::StatusOr<int> NoShard::ShardSize(int) const { return FixedShardSize(kName, options(), 1); }

// Parameters are whole anyway; they leave sight with the step so that use outside of a pass shows
// as it would under any other strategy.
bool NoShard::KeepsGathered(const Unit&, Pass pass) const {
  return pass == Pass::kForward || pass == Pass::kBackward;
}

namespace {

const StrategyRegistration registration(NoShard::kName, [](const StrategyOptions& options) {
  return std::make_unique<NoShard>(options);
});

}  // namespace
}  // namespace zeroth
