// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/rank.h"

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

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
