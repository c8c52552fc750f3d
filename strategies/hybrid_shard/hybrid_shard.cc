// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Fully sharded inside groups of ranks, and replicated across groups (FSDP's HYBRID_SHARD; MiCS:
// Zhang et al., 2022). Gathers stay inside a group. Gradients are reduce-scattered inside a group,
// and their shards are all-reduced across groups. StrategyOptions::shard_optimizer_over_world
// shards the optimizer's state over all ranks.

#include "absl/status/statusor.h"

#include "zeroth/strategies/strategy.h"

namespace zeroth {
namespace {

class HybridShard : public FreesAfterForward {
 public:
  using FreesAfterForward::FreesAfterForward;

  StrategyCapabilities capabilities() const override {
    StrategyCapabilities supported = FreesAfterForward::capabilities();
    supported.shard_optimizer_over_world = true;
    return supported;
  }
  absl::StatusOr<int> ShardSize(int world_size) const override {
    if (options().shard_size > 0) return ShardingStrategy::ShardSize(world_size);
    return WrongShardSize("no shard size was given (the number of ranks in a group)", world_size);
  }
};

const auto registration = StrategyRegistration::Of<HybridShard>("hybrid_shard");

}  // namespace
}  // namespace zeroth
