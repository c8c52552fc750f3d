// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/copy_engine.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroth::nccl {
namespace {

using ::testing::HasSubstr;

// Four ranks, two on each of two machines, that lack nothing.
std::vector<RankCapabilities> TwoMachines(const std::string& mode) {
  std::vector<RankCapabilities> ranks(4);
  for (size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].mode = mode;
    ranks[i].host = i < 2 ? "left" : "right";
    ranks[i].boot = i < 2 ? "1b" : "2b";
    ranks[i].compiled_version = 22809;
    ranks[i].library_version = 22907;
    ranks[i].driver_version = 13000;
  }
  return ranks;
}

TEST(CopyEnginePlanTest, GroupsOfOneMachineTakePart) {
  for (const std::string mode : {"auto", "on"}) {
    const absl::StatusOr<CopyEnginePlan> plan = CopyEnginePlan::Make(TwoMachines(mode));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(plan->enabled());
    for (const std::vector<int>& group : {std::vector<int>{0, 1}, {2, 3}, {3, 2}}) {
      EXPECT_TRUE(plan->Registers(group));
      EXPECT_TRUE(*plan->GathersByCopyEngine(group));
      EXPECT_THAT(plan->Note(group), HasSubstr("by copy engines (NCCL 2.29.7"));
    }
    // A group of one rank sends nothing.
    EXPECT_FALSE(plan->Registers({2}));
    EXPECT_FALSE(*plan->GathersByCopyEngine({2}));
    EXPECT_EQ(plan->Note({2}), "");
  }
}

TEST(CopyEnginePlanTest, GroupsOfSeveralMachinesDoNot) {
  const absl::StatusOr<CopyEnginePlan> chosen = CopyEnginePlan::Make(TwoMachines("auto"));
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_FALSE(chosen->Registers({0, 1, 2, 3}));
  EXPECT_FALSE(*chosen->GathersByCopyEngine({1, 3}));
  EXPECT_THAT(chosen->Note({1, 3}), HasSubstr("by NCCL's kernels: rank 1 is on left and rank 3 on "
                                              "right"));

  std::vector<RankCapabilities> namesakes = TwoMachines("auto");
  for (RankCapabilities& rank : namesakes) rank.host = "node";
  const absl::StatusOr<CopyEnginePlan> of_one_name = CopyEnginePlan::Make(namesakes);
  ASSERT_TRUE(of_one_name.ok()) << of_one_name.status();
  EXPECT_TRUE(of_one_name->Registers({2, 3}));
  EXPECT_FALSE(of_one_name->Registers({1, 2}));
  EXPECT_THAT(of_one_name->Note({1, 2}), HasSubstr("rank 2 on another machine of that name"));

  const absl::StatusOr<CopyEnginePlan> forced = CopyEnginePlan::Make(TwoMachines("on"));
  ASSERT_TRUE(forced.ok()) << forced.status();
  const absl::Status refused = forced->GathersByCopyEngine({0, 1, 2, 3}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("rank 0 is on left and rank 2 on right"));
  // The mode concerns gathers only, so a group that reduces may span machines.
  EXPECT_FALSE(forced->Registers({0, 2}));
}

TEST(CopyEnginePlanTest, OneRankThatCannotStopsAll) {
  struct Lack {
    void (*make)(RankCapabilities&);
    const char* words;
  };
  const Lack lacks[] = {
      {[](RankCapabilities& rank) { rank.compiled_version = 22703; },
       "rank 3 was built with the header of NCCL 2.27.3, expected 2.28"},
      {[](RankCapabilities& rank) { rank.library_version = 22705; },
       "rank 3 runs NCCL 2.27.5, expected 2.28"},
      {[](RankCapabilities& rank) { rank.driver_version = 12040; },
       "rank 3 has a driver for CUDA 12.4, expected 12.5"},
      {[](RankCapabilities& rank) { rank.memory_error = "none left"; },
       "rank 3 has no memory to register: none left"},
  };
  for (const Lack& lack : lacks) {
    std::vector<RankCapabilities> ranks = TwoMachines("auto");
    lack.make(ranks[3]);
    const absl::StatusOr<CopyEnginePlan> chosen = CopyEnginePlan::Make(ranks);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_FALSE(chosen->enabled());
    EXPECT_FALSE(chosen->Registers({0, 1}));
    EXPECT_FALSE(*chosen->GathersByCopyEngine({0, 1}));
    EXPECT_THAT(chosen->Note({0, 1}), HasSubstr(lack.words));

    for (RankCapabilities& rank : ranks) rank.mode = "on";
    const absl::Status refused = CopyEnginePlan::Make(ranks).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(lack.words));
  }
}

TEST(CopyEnginePlanTest, OffIsOffWhateverRanksCan) {
  std::vector<RankCapabilities> ranks = TwoMachines("off");
  ranks[1].library_version = 0;
  const absl::StatusOr<CopyEnginePlan> plan = CopyEnginePlan::Make(ranks);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->enabled());
  EXPECT_FALSE(plan->Registers({0, 1}));
  EXPECT_EQ(plan->Note({0, 1}), "");
  EXPECT_FALSE(CopyEnginePlan().enabled());
}

TEST(CopyEnginePlanTest, ModesThatDifferAreAnError) {
  std::vector<RankCapabilities> ranks = TwoMachines("auto");
  ranks[2].mode = "off";
  const absl::Status refused = CopyEnginePlan::Make(ranks).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("auto on rank 0 and off on rank 2"));
}

TEST(RankCapabilitiesTest, IsSentAsBytes) {
  RankCapabilities capabilities = TwoMachines("on")[2];
  capabilities.memory_error = "cuMem is off";
  const absl::StatusOr<RankCapabilities> read = RankCapabilities::Parse(capabilities.Serialize());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->mode, "on");
  EXPECT_EQ(read->host, "right");
  EXPECT_EQ(read->boot, "2b");
  EXPECT_EQ(read->compiled_version, 22809);
  EXPECT_EQ(read->library_version, 22907);
  EXPECT_EQ(read->driver_version, 13000);
  EXPECT_EQ(read->memory_error, "cuMem is off");

  const std::string bytes = capabilities.Serialize();
  EXPECT_FALSE(RankCapabilities::Parse(bytes.substr(0, bytes.size() - 1)).ok());
  EXPECT_FALSE(RankCapabilities::Parse(bytes + "x").ok());
  EXPECT_FALSE(RankCapabilities::Parse("").ok());
}

}  // namespace
}  // namespace zeroth::nccl
