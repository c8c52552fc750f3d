// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/full_shard/full_shard.h"

#include "gtest/gtest.h"

#include "zeroth/strategies/testing/strategy_suite.h"

namespace zeroth {
namespace {

INSTANTIATE_TEST_SUITE_P(FullShard, StrategySuite,
                         testing::ValuesIn(StrategyCases(FullShard::kName)), StrategyCaseName);

}  // namespace
}  // namespace zeroth
