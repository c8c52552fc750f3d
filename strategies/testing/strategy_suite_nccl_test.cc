// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs the strategy suite with as many ranks as NCCL can have here. Results must have the bits of
// the local back end, with which the suite computes the expected values.

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/nccl/testing/nccl_gpus.h"
#include "zeroth/core/comm/nccl/testing/nccl_test_ranks.h"
#include "zeroth/strategies/testing/strategy_suite.h"

namespace zeroth {
namespace {

const LauncherRegistration registration("nccl_threads", testing::RunNcclThreads);

std::vector<StrategyCase> NcclCases() {
  std::vector<StrategyCase> cases = {{"no_shard", 2, 0, "cuda", "nccl_threads"},
                                     {"shard_grad_op", 3, 0, "cuda", "nccl_threads"},
                                     {"full_shard", 1, 0, "cuda", "nccl_threads"},
                                     {"full_shard", 4, 0, "cuda", "nccl_threads"},
                                     {"hybrid_shard", 4, 2, "cuda", "nccl_threads"}};
  // Two GPUs suffice; the emulation, which is slow, shows the same with four ranks.
  if (!testing::NcclIsEmulated()) cases.push_back({"full_shard", 2, 0, "cuda", "nccl_threads"});
  const auto is_too_large = [](const StrategyCase& one) {
    return one.world_size > 1 && one.world_size > testing::MostNcclRanks();
  };
  cases.erase(std::remove_if(cases.begin(), cases.end(), is_too_large), cases.end());
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Nccl, StrategySuite, ::testing::ValuesIn(NcclCases()),
                         [](const ::testing::TestParamInfo<StrategyCase>& instance) {
                           return instance.param.strategy + StrategyCaseName(instance);
                         });

}  // namespace
}  // namespace zeroth
