// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "gtest/gtest.h"

#include "zeroth/strategies/testing/strategy_suite.h"

namespace zeroth {
namespace {

const StrategyCase kCases[] = {
    {"hybrid_shard", 1, 1}, {"hybrid_shard", 2, 1}, {"hybrid_shard", 2, 2}, {"hybrid_shard", 3, 1},
    {"hybrid_shard", 4, 2}, {"hybrid_shard", 4, 4}, {"hybrid_shard", 6, 3}, {"hybrid_shard", 8, 2},
};

StrategyCase OptimizerOverWorld(int world_size, int shard_size) {
  StrategyCase over_world{"hybrid_shard", world_size, shard_size};
  over_world.shard_optimizer_over_world = true;
  return over_world;
}

// One rank, groups of one, one group, several larger groups; sizes that are not powers of two.
const StrategyCase kOverWorldCases[] = {
    OptimizerOverWorld(1, 1), OptimizerOverWorld(2, 1), OptimizerOverWorld(3, 1),
    OptimizerOverWorld(4, 4), OptimizerOverWorld(4, 2), OptimizerOverWorld(6, 3),
    OptimizerOverWorld(6, 2), OptimizerOverWorld(8, 2), OptimizerOverWorld(8, 4),
};

INSTANTIATE_TEST_SUITE_P(OptimizerOverWorld, StrategySuite, testing::ValuesIn(kOverWorldCases),
                         StrategyCaseName);

INSTANTIATE_TEST_SUITE_P(HybridShard, StrategySuite, testing::ValuesIn(kCases), StrategyCaseName);

}  // namespace
}  // namespace zeroth
