// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/shard_optimizer/shard_optimizer.h"

#include <memory>

namespace zeroth {

StatePlacement ShardOptimizer::placement() const {
  return {.parameters = true, .gradients = true, .optimizer = true};
}

absl::StatusOr<int> ShardOptimizer::ShardSize(int world_size) const {
  return FixedShardSize(kName, options(), world_size);
}

bool ShardOptimizer::KeepsGathered(const Unit&, Pass pass) const {
  return pass == Pass::kForward || pass == Pass::kBackward;
}

namespace {

const StrategyRegistration registration(ShardOptimizer::kName, [](const StrategyOptions& options) {
  return std::make_unique<ShardOptimizer>(options);
});

}  // namespace
}  // namespace zeroth
