// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/hybrid_shard/hybrid_shard.h"

#include "gtest/gtest.h"

#include "zeroth/strategies/testing/strategy_suite.h"

namespace zeroth {
namespace {

const StrategyCase kCases[] = {
    {HybridShard::kName, 1, 1}, {HybridShard::kName, 2, 1}, {HybridShard::kName, 2, 2},
    {HybridShard::kName, 3, 1}, {HybridShard::kName, 4, 2}, {HybridShard::kName, 4, 4},
    {HybridShard::kName, 6, 3}, {HybridShard::kName, 8, 2},
};

INSTANTIATE_TEST_SUITE_P(HybridShard, StrategySuite, testing::ValuesIn(kCases), StrategyCaseName);

}  // namespace
}  // namespace zeroth
