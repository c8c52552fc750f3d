// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/shard_grad_op/shard_grad_op.h"

#include "gtest/gtest.h"

#include "zeroth/strategies/testing/strategy_suite.h"

namespace zeroth {
namespace {

INSTANTIATE_TEST_SUITE_P(ShardGradOp, StrategySuite,
                         testing::ValuesIn(StrategyCases(ShardGradOp::kName)), StrategyCaseName);

}  // namespace
}  // namespace zeroth
