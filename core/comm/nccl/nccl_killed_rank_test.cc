// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A program of its own, because it forks, which wants a process without threads.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/nccl/nccl.h"
#include "zeroth/core/comm/nccl/nccl_test_ranks.h"

namespace zeroth::testing {
namespace {

// Real processes, one of which is killed while the others wait for it on their devices.
class KilledRankTest : public ::testing::TestWithParam<int> {};

TEST_P(KilledRankTest, TheOthersEndWithAnError) {
  const int victim = GetParam();
  constexpr int kSize = 3;
  const std::string file = NcclTestFile();
  std::vector<pid_t> children;
  for (int rank = 0; rank < kSize; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    LaunchOptions options;
    options.world_size = kSize;
    const absl::Status status =
        RunNcclRank(NcclTestEnvironment(rank, kSize, file), options, OnCuda([&](TestRank& test) {
                      absl::Status result = TwoAllReduces(test);
                      if (rank == victim) kill(getpid(), SIGKILL);
                      result.Update(TwoAllReduces(test));
                      return result;
                    }));
    std::ofstream(absl::StrCat(file, ".", rank)) << status.ToString();
    _exit(0);
  }
  for (int rank = 0; rank < kSize; ++rank) {
    int state = 0;
    const pid_t child = children[static_cast<size_t>(rank)];
    ASSERT_EQ(waitpid(child, &state, 0), child);
    EXPECT_EQ(WIFSIGNALED(state), rank == victim);
    if (rank == victim) continue;
    std::ifstream report(absl::StrCat(file, ".", rank));
    const std::string text((std::istreambuf_iterator<char>(report)), {});
    EXPECT_TRUE(absl::StartsWith(text, "UNAVAILABLE")) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, KilledRankTest, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace zeroth::testing
