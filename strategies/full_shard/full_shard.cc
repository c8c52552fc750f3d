// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/full_shard/full_shard.h"

#include <memory>

namespace zeroth {

StatePlacement FullShard::placement() const {
  return {.parameters = true, .gradients = true, .optimizer = true};
}

absl::StatusOr<int> FullShard::ShardSize(int world_size) const {
  return FixedShardSize(kName, options(), world_size);
}

bool FullShard::KeepsGathered(const Unit& unit, Pass pass) const {
  return pass == Pass::kForward && (unit.is_root() || !options().reshard_after_forward);
}

namespace {

const StrategyRegistration registration(FullShard::kName, [](const StrategyOptions& options) {
  return std::make_unique<FullShard>(options);
});

}  // namespace
}  // namespace zeroth
