// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A separate program, because it forks, which needs a process without threads.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/nccl/emulation/emulated_nccl.h"
#include "zeroth/core/comm/nccl/nccl.h"
#include "zeroth/core/comm/nccl/testing/nccl_test_ranks.h"
#include "zeroth/core/comm/process/hang_watchdog.h"

namespace zeroth::testing {
namespace {

// Real processes, one of which is killed while the others wait for it on their devices.
class KilledRankTest : public ::testing::TestWithParam<int> {};

TEST_P(KilledRankTest, TheOthersEndWithAnError) {
  const int victim = GetParam();
  constexpr int kSize = 3;
  const std::string file = TestRendezvousFile();
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
        RunNcclRank(TestEnvironment(rank, kSize, file), options, OnCuda([&](TestRank& test) {
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

// The library cannot stop the device's work then: the process ends instead, with the reason, or
// says the reason and stays.
class StuckCopyEngineTest : public ::testing::TestWithParam<bool> {};

TEST_P(StuckCopyEngineTest, EndsItsProcessOrStaysWithTheReason) {
  const bool ends = GetParam();
  constexpr int kVictim = 1;
  const std::string file = TestRendezvousFile();
  std::vector<pid_t> children;
  for (int rank = 0; rank < 2; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    ASSERT_NE(std::freopen(absl::StrCat(file, ".log.", rank).c_str(), "w", stderr), nullptr);
    nccl::emulation::LeaveCopyEnginesWaiting();
    LaunchOptions options;
    options.world_size = 2;
    options.ends_stuck_process = ends;
    HangWatchdog::ShortenForTest(absl::Seconds(1));
    const auto gather = [&](TestRank& test) -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(const auto group, test.world.SplitForGathers(0, rank));
      ZEROTH_ASSIGN_OR_RETURN(const Tensor full, TransportFloats(test, 8));
      ZEROTH_ASSIGN_OR_RETURN(const auto registration, group->Register(full, "full"));
      ZEROTH_RETURN_IF_ERROR(CheckGatherInto(test, *group, full, 1, /*in_place=*/true));
      if (rank == kVictim) {
        while (!std::ifstream(file + ".enqueued")) SleepFor(1000);
        kill(getpid(), SIGKILL);
      }
      ZEROTH_RETURN_IF_ERROR(
          group->AllGather(full.View(0, Shape({4})), full, test.stream, "gather"));
      std::ofstream(file + ".enqueued") << "yes";
      return test.stream.Synchronize();
    };
    RunNcclRank(TestEnvironment(rank, 2, file), options, OnCuda(gather)).IgnoreError();
    _exit(0);
  }
  int state = 0;
  ASSERT_EQ(waitpid(children[1], &state, 0), children[1]);
  EXPECT_TRUE(WIFSIGNALED(state));
  const auto said = [&] {
    std::ifstream log(absl::StrCat(file, ".log.0"));
    return std::string((std::istreambuf_iterator<char>(log)), {});
  };
  if (!ends) {
    while (!absl::StrContains(said(), "this process ")) SleepFor(1000);
    SleepFor(200'000);
    EXPECT_EQ(waitpid(children[0], &state, WNOHANG), 0) << "it has not stayed";
    kill(children[0], SIGKILL);
  }
  ASSERT_EQ(waitpid(children[0], &state, 0), children[0]);
  if (ends) {
    EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == EXIT_FAILURE) << state;
  }
  const std::string text = said();
  for (const char* const words :
       {"rank 1", ends ? "this process ends" : "this process stays", "all_gather 'gather' (call 3",
        "copy engines, which NCCL cannot abort"}) {
    EXPECT_TRUE(absl::StrContains(text, words)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Ends, StuckCopyEngineTest, ::testing::Bool());
INSTANTIATE_TEST_SUITE_P(Ranks, KilledRankTest, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace zeroth::testing
