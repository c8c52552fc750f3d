// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The strategy suite as one rank runs it: strategy_suite_mpi_test.cc starts as many as the world
// sizes of the tests that it filters.

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/strategies/testing/strategy_suite.h"

namespace zeroth {
namespace {

std::vector<StrategyCase> MpiCases() {
  return {{"no_shard", 2, 0, "cpu", "mpi"},
          {"shard_grad_op", 3, 0, "cpu", "mpi"},
          {"full_shard", 1, 0, "cpu", "mpi"},
          {"full_shard", 4, 0, "cpu", "mpi"},
          {"hybrid_shard", 4, 2, "cpu", "mpi"}};
}

INSTANTIATE_TEST_SUITE_P(Mpi, StrategySuite, ::testing::ValuesIn(MpiCases()),
                         [](const ::testing::TestParamInfo<StrategyCase>& instance) {
                           return instance.param.strategy + StrategyCaseName(instance);
                         });

}  // namespace
}  // namespace zeroth
