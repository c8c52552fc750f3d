// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "gtest/gtest.h"

#include "zeroth/strategies/testing/strategy_suite.h"

namespace zeroth {
namespace {

INSTANTIATE_TEST_SUITE_P(ShardGradOp, StrategySuite,
                         testing::ValuesIn(StrategyCases("shard_grad_op")), StrategyCaseName);

const StrategyCase kInGroups[] = {{"shard_grad_op", 4, 1},
                                  {"shard_grad_op", 4, 2},
                                  {"shard_grad_op", 6, 3},
                                  {"shard_grad_op", 8, 2}};

INSTANTIATE_TEST_SUITE_P(ShardGradOpInGroups, StrategySuite, testing::ValuesIn(kInGroups),
                         StrategyCaseName);

}  // namespace
}  // namespace zeroth
