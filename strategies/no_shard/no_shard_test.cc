// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/no_shard/no_shard.h"

#include "gtest/gtest.h"

#include "zeroth/strategies/testing/strategy_suite.h"

namespace zeroth {
namespace {

INSTANTIATE_TEST_SUITE_P(NoShard, StrategySuite, testing::ValuesIn(StrategyCases(NoShard::kName)),
                         StrategyCaseName);

}  // namespace
}  // namespace zeroth
