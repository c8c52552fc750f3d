// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "gtest/gtest.h"

#include "zeroth/strategies/testing/strategy_suite.h"

namespace zeroth {
namespace {

INSTANTIATE_TEST_SUITE_P(ShardGradOp, StrategySuite,
                         testing::ValuesIn(StrategyCases("shard_grad_op")), StrategyCaseName);

}  // namespace
}  // namespace zeroth
