// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// ZeRO stage 1 (Rajbhandari et al., 2020): the optimizer's state is sharded, while parameters and
// gradients are full throughout a step. Each unit costs one all-gather and one reduce-scatter per
// step, however many micro-batches it has: the least traffic of all sharded strategies. With a
// shard size, state is sharded inside groups of ranks and replicated across groups.

#include "zeroth/strategies/strategy.h"

namespace zeroth {
namespace {

class ShardOptimizer : public ShardingStrategy {
 public:
  using ShardingStrategy::ShardingStrategy;

  StrategyCapabilities capabilities() const override {
    StrategyCapabilities supported = ShardingStrategy::capabilities();
    supported.adds_up_in_full = options().tree_micro_batches == 0;
    return supported;
  }
};

const auto registration = StrategyRegistration::Of<ShardOptimizer>("shard_optimizer");

}  // namespace
}  // namespace zeroth
