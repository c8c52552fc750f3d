// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/rank.h"

#include <atomic>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"

namespace zeroth {
namespace {

// A launcher that has started four ranks, some of them on this machine, and a device that shows
// how many threads it is asked for.
constexpr int kWorldSize = 4;
int ranks_here = 0;
std::atomic<int> threads{0};

const LauncherRegistration launcher(
    "machines",
    [](const LaunchOptions&, const RankMain& rank_main) {
      return RunLocalRanks(kWorldSize, rank_main);
    },
    []() -> absl::StatusOr<StartedRanks> {
      return StartedRanks{kWorldSize, ranks_here};
    });
const DeviceRegistration device(
    "threads", [](const DeviceOptions& options) -> absl::StatusOr<std::shared_ptr<Device>> {
      threads = options.threads;
      return absl::CancelledError("seen");
    });

// The cores of a machine are for the ranks on it, however many machines there are.
TEST(RankTest, RanksShareTheCoresOfTheirMachineAlone) {
  const auto threads_with = [](int here, int given) {
    ranks_here = here;
    RunOptions run;
    run.comm = "machines";
    run.rank.device = "threads";
    run.rank.ranks_on_machine = given;
    const absl::Status status = RunRanks(run, [](Rank&) { return absl::OkStatus(); });
    EXPECT_TRUE(absl::StrContains(status.message(), "seen")) << status;
    return threads.load();
  };
  EXPECT_EQ(threads_with(1, 0), DefaultThreadsPerRank(1));
  EXPECT_EQ(threads_with(2, 0), DefaultThreadsPerRank(2));
  EXPECT_EQ(threads_with(0, 0), DefaultThreadsPerRank(kWorldSize)) << "the launcher does not say";
  EXPECT_EQ(threads_with(4, 1), DefaultThreadsPerRank(1)) << "the caller says otherwise";
}

// A limit that a caller computes as the rest of something may be below 0: it must not mean none.
TEST(RankTest, NegativeOptionsAreRefusedByName) {
  const auto expect = [](const std::function<void(RankOptions&)>& change, const char* words) {
    RunOptions run;
    change(run.rank);
    const absl::Status status = RunRanks(run, [](Rank&) { return absl::OkStatus(); });
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  };
  expect([](RankOptions& options) { options.threads = -1; }, "threads = -1");
  expect([](RankOptions& options) { options.ranks_on_machine = -2; }, "ranks_on_machine = -2");
  expect([](RankOptions& options) { options.memory_limit = -4096; }, "memory_limit is -4096");
}

}  // namespace
}  // namespace zeroth
