// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs the strategy suite on one rank. strategy_suite_mpi_test.cc selects tests, and starts as many
// ranks as their world size.

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/strategies/testing/strategy_suite.h"

namespace zeroth {
namespace {

std::vector<StrategyCase> MpiCases() {
  std::vector<StrategyCase> cases = {{"no_shard", 2},
                                     {"shard_grad_op", 3},
                                     {"full_shard", 1},
                                     {"full_shard", 4},
                                     {"hybrid_shard", 4, 2}};
  for (StrategyCase& instance : cases) {
    instance.back_end = "mpi";
    instance.in_processes = true;
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Mpi, StrategySuite, ::testing::ValuesIn(MpiCases()),
                         [](const ::testing::TestParamInfo<StrategyCase>& instance) {
                           return instance.param.strategy + StrategyCaseName(instance);
                         });

}  // namespace
}  // namespace zeroth
