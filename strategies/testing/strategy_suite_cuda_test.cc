// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs the strategy suite with ranks that share a GPU. Strategies have no code for GPUs.

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/strategies/testing/strategy_suite.h"

namespace zeroth {
namespace {

std::vector<StrategyCase> CudaCases() {
  std::vector<StrategyCase> cases;
  for (const char* strategy : {"no_shard", "shard_grad_op", "full_shard"}) {
    for (const int world_size : {1, 2, 4}) cases.push_back({strategy, world_size, 0, "cuda"});
  }
  cases.push_back({"hybrid_shard", 2, 1, "cuda"});
  cases.push_back({"hybrid_shard", 4, 2, "cuda"});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cuda, StrategySuite, testing::ValuesIn(CudaCases()),
                         [](const testing::TestParamInfo<StrategyCase>& instance) {
                           return instance.param.strategy + StrategyCaseName(instance);
                         });

}  // namespace
}  // namespace zeroth
