// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The shared suite of communicators, with as many ranks as NCCL can have here.

#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/nccl/testing/nccl_gpus.h"
#include "zeroth/core/comm/nccl/testing/nccl_test_ranks.h"
#include "zeroth/core/comm/testing/communicator_test_suite.h"

namespace zeroth::testing {
namespace {

const LauncherRegistration threads("nccl_threads", RunNcclThreads);
// Two ranks share a node.
const LauncherRegistration nodes("nccl_nodes", [](const LaunchOptions& options,
                                                  const RankMain& rank_main) {
  const int pairs = options.world_size / 2;
  return RunNcclNodes(options, rank_main, NodesOf(std::vector<int>(static_cast<size_t>(pairs), 2)));
});

// Includes one rank even without a GPU: its tests are then reported as skipped.
std::vector<CommunicatorTestParam> Params() {
  std::vector<CommunicatorTestParam> params;
  for (int ranks = 1; ranks <= 5; ++ranks) {
    if (ranks == 1 || ranks <= MostNcclRanks()) params.push_back({"nccl_threads", "cuda", ranks});
  }
  for (int ranks : {4, 6}) {
    if (ranks <= MostNcclRanks()) params.push_back({"nccl_nodes", "cuda", ranks});
  }
  return params;
}

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorTest, ::testing::ValuesIn(Params()),
                         CommunicatorTestName);

}  // namespace
}  // namespace zeroth::testing
