// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/strategy.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The message of the error with which a strategy refuses its options, at creation or for this
// world.
std::string Refusal(const std::string& name, const StrategyOptions& options, int world_size) {
  const auto strategy = StrategyRegistry::Create(name, options);
  const absl::Status status =
      strategy.ok() ? ShardSizeOf(**strategy, options, world_size).status() : strategy.status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

int ShardSize(const std::string& name, int shard_size, int world_size) {
  const auto strategy = StrategyRegistry::Create(name, {shard_size});
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  const auto size = ShardSizeOf(**strategy, {shard_size}, world_size);
  EXPECT_TRUE(size.ok()) << size.status();
  return *size;
}

TEST(StrategyRegistryTest, KnowsWhatIsLinkedIn) {
  EXPECT_THAT(StrategyRegistry::Names(), ElementsAre("full_shard", "hybrid_shard", "no_shard",
                                                     "shard_grad_op", "shard_optimizer"));
  for (const std::string& name : StrategyRegistry::Names()) {
    EXPECT_EQ((*StrategyRegistry::Create(name, {}))->name(), name);
  }
}

TEST(StrategyRegistryTest, AnUnknownNameListsTheKnownOnes) {
  EXPECT_THAT(
      Refusal("fulshard", {}, 2),
      AllOf(HasSubstr("'fulshard'"),
            HasSubstr("full_shard, hybrid_shard, no_shard, shard_grad_op, shard_optimizer")));
}

TEST(StrategyRegistryDeathTest, ANameIsRegisteredOnce) {
  EXPECT_DEATH(StrategyRegistry::Register("full_shard", {}, nullptr), "already registered");
}

TEST(StrategyOptionsTest, ShardSizesThatFit) {
  EXPECT_EQ(ShardSize("full_shard", 0, 6), 6);
  EXPECT_EQ(ShardSize("full_shard", 6, 6), 6);
  EXPECT_EQ(ShardSize("shard_grad_op", 0, 6), 6);
  EXPECT_EQ(ShardSize("shard_optimizer", 0, 6), 6);
  EXPECT_EQ(ShardSize("no_shard", 0, 6), 1);
  EXPECT_EQ(ShardSize("no_shard", 1, 6), 1);
  for (int size : {1, 2, 3, 6}) {
    for (const char* name : {"hybrid_shard", "shard_optimizer", "shard_grad_op"}) {
      EXPECT_EQ(ShardSize(name, size, 6), size);
    }
  }
}

TEST(StrategyOptionsTest, NothingIsSilentlyDowngraded) {
  for (const char* name : {"no_shard", "shard_grad_op", "full_shard", "hybrid_shard"}) {
    EXPECT_THAT(Refusal(name, {-2}, 4),
                AllOf(HasSubstr(name), HasSubstr("-2"), HasSubstr("negative")));
    EXPECT_THAT(Refusal(name, {0, ReduceOp::kMax}, 4), HasSubstr("mean or sum"));
  }
  EXPECT_THAT(Refusal("full_shard", {2}, 4),
              AllOf(HasSubstr("4 ranks"), HasSubstr("2"), HasSubstr("hybrid_shard")));
  EXPECT_THAT(Refusal("shard_grad_op", {3}, 4),
              AllOf(HasSubstr("3 does not divide the 4"), HasSubstr("1, 2, 4")));
  EXPECT_THAT(Refusal("no_shard", {2}, 4), HasSubstr("hybrid_shard"));
  EXPECT_THAT(Refusal("hybrid_shard", {}, 6),
              AllOf(HasSubstr("no shard size"), HasSubstr("1, 2, 3, 6")));
  EXPECT_THAT(Refusal("hybrid_shard", {4}, 6),
              AllOf(HasSubstr("4 does not divide"), HasSubstr("1, 2, 3, 6")));
  EXPECT_THAT(Refusal("hybrid_shard", {12}, 6), HasSubstr("1, 2, 3, 6"));
}

TEST(StrategyOptionsTest, GradientsAreDividedByPositiveNumbers) {
  for (const std::string& name : StrategyRegistry::Names()) {
    for (const double factor : {-2.0, std::nan(""), HUGE_VAL}) {
      StrategyOptions options;
      options.gradient_divide_factor = factor;
      const absl::Status status = StrategyRegistry::Create(name, options).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name << " " << factor;
      EXPECT_THAT(std::string(status.message()), HasSubstr("gradient_divide_factor"));
    }
  }
}

TEST(StrategyOptionsTest, OnlyGroupsHaveAWorldBeyondThem) {
  StrategyOptions options;
  options.shard_optimizer_over_world = true;
  for (const char* name : {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard"}) {
    EXPECT_THAT(
        Refusal(name, options, 4),
        AllOf(HasSubstr(name), HasSubstr("shard_optimizer_over_world"), HasSubstr("hybrid_shard")));
  }
  options.shard_size = 2;
  const auto hybrid = StrategyRegistry::Create("hybrid_shard", options);
  ASSERT_TRUE(hybrid.ok()) << hybrid.status();
}

TEST(StrategyOptionsTest, OnlyReshardedUnitsCanBeKeptInSmallerGroups) {
  StrategyOptions options;
  options.post_forward_shard_size = 2;
  for (const char* name : {"no_shard", "shard_optimizer", "shard_grad_op"}) {
    EXPECT_THAT(
        Refusal(name, options, 4),
        AllOf(HasSubstr(name), HasSubstr("reshard_after_forward"), HasSubstr("full_shard")));
  }
  EXPECT_TRUE(StrategyRegistry::Create("full_shard", options).ok());
  options.reshard_after_forward = false;
  EXPECT_THAT(Refusal("full_shard", options, 4), HasSubstr("stay gathered"));
}

TEST(StrategyRegistryTest, OtherFrameworksNamesAreKnown) {
  for (const auto& [theirs, ours] : {std::pair("zero3", "full_shard (ZeRO-3)"),
                                     {"FSDP", "full_shard (ZeRO-3)"},
                                     {"zero-2", "shard_grad_op (ZeRO-2)"},
                                     {"stage1", "shard_optimizer (ZeRO-1)"},
                                     {"ddp", "no_shard (data parallel)"},
                                     {"HSDP", "hybrid_shard"}}) {
    EXPECT_THAT(Refusal(theirs, {}, 2), HasSubstr(absl::StrCat("did you mean ", ours, "?")));
  }
}

TEST(StrategyOptionsTest, TheProjectsOwnHaveNoFurtherOptions) {
  for (const std::string& name : StrategyRegistry::Names()) {
    EXPECT_THAT(Refusal(name + ":depth=2", {}, 4),
                AllOf(HasSubstr(name), HasSubstr("'depth'"), HasSubstr("it has no options")));
  }
}

TEST(StrategyTest, CapabilitiesSayWhatIsSharded) {
  for (const std::string& name : StrategyRegistry::Names()) {
    const StrategyCapabilities supported = (*StrategyRegistry::Create(name, {}))->capabilities();
    EXPECT_EQ(supported.shards, name != "no_shard") << name;
    EXPECT_EQ(supported.shares_buffers, name == "full_shard" || name == "hybrid_shard") << name;
    EXPECT_TRUE(supported.offload && supported.unit_collectives) << name;
  }
}

}  // namespace
}  // namespace zeroth
