// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "gtest/gtest.h"

#include "zeroth/strategies/testing/strategy_suite.h"

namespace zeroth {
namespace {

INSTANTIATE_TEST_SUITE_P(ShardOptimizer, StrategySuite,
                         testing::ValuesIn(StrategyCases("shard_optimizer")), StrategyCaseName);

const StrategyCase kInGroups[] = {{"shard_optimizer", 4, 1},
                                  {"shard_optimizer", 4, 2},
                                  {"shard_optimizer", 6, 3},
                                  {"shard_optimizer", 8, 2}};

INSTANTIATE_TEST_SUITE_P(ShardOptimizerInGroups, StrategySuite, testing::ValuesIn(kInGroups),
                         StrategyCaseName);

}  // namespace
}  // namespace zeroth
