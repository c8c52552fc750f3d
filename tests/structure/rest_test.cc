// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Between steps, memory holds nothing but a rank's shards, whatever the step gathered, reduced or
// accumulated.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/tests/structure/small_gpt2.h"

namespace zeroth::testing {
namespace {

constexpr int kWorld = 4;

struct RestCase {
  std::string strategy;
  int micro_batches = 1;
  bool sync_every = true;
  bool reshard_after_forward = true;
  int post_forward_group = 0;

  int shard_size() const {
    if (strategy == "no_shard") return 1;
    return strategy == "hybrid_shard" ? 2 : kWorld;
  }
  std::string name() const {
    return absl::StrCat(
        strategy, "_micro", micro_batches, sync_every ? "_every" : "_last",
        reshard_after_forward ? "" : "_kept",
        post_forward_group > 0 ? absl::StrCat("_groups_of_", post_forward_group) : "");
  }
};

std::vector<RestCase> RestCases() {
  std::vector<RestCase> cases;
  for (const char* strategy :
       {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard", "hybrid_shard"}) {
    for (const auto& [micro_batches, sync_every] :
         {std::pair(1, true), std::pair(3, true), std::pair(3, false)}) {
      cases.push_back({strategy, micro_batches, sync_every});
    }
  }
  cases.push_back({"full_shard", 3, true, /*reshard_after_forward=*/false});
  cases.push_back({"full_shard", 3, true, true, /*post_forward_group=*/2});
  cases.push_back({"hybrid_shard", 3, false, true, /*post_forward_group=*/2});
  return cases;
}

class RestTest : public ::testing::TestWithParam<RestCase> {};

TEST_P(RestTest, AStepLeavesShardsOnly) {
  const RestCase& c = GetParam();
  TrainerOptions options = OptionsOf(c.strategy, c.strategy == "hybrid_shard" ? 2 : 0);
  options.sync_every_micro_batch = c.sync_every;
  options.sharding.strategy_options.reshard_after_forward = c.reshard_after_forward;
  options.sharding.strategy_options.post_forward_shard_size = c.post_forward_group;
  const int64_t shards = 4 * kNumel / c.shard_size();
  const absl::Status status = RunSmallGpt2(
      kWorld, options, [&](Trainer& trainer, Device& device, int rank) -> absl::Status {
        int64_t workspace = 0;
        for (int step = 0; step < 4; ++step) {
          ZEROTH_RETURN_IF_ERROR(
              trainer.Step(MicroBatches(rank, step, c.micro_batches), 1e-3).status());
          const MemoryStats memory = device.allocator().stats();
          const auto current = [&](MemoryCategory category) {
            return memory[category].current_bytes;
          };
          SCOPED_TRACE(absl::StrCat("step ", step, " of rank ", rank));
          EXPECT_EQ(current(MemoryCategory::kParameters), shards);
          EXPECT_EQ(current(MemoryCategory::kGatheredParameters), 0);
          EXPECT_EQ(current(MemoryCategory::kGradients), 0);
          EXPECT_EQ(current(MemoryCategory::kOptimizer), 2 * shards);
          EXPECT_EQ(current(MemoryCategory::kActivations), 0);
          EXPECT_EQ(current(MemoryCategory::kCommunication), 0);
          EXPECT_EQ(current(MemoryCategory::kOffloadStaging), 0);
          // Scratch of kernels is made once.
          if (step > 0) {
            EXPECT_EQ(current(MemoryCategory::kWorkspace), workspace);
          }
          workspace = current(MemoryCategory::kWorkspace);
          for (const Unit* unit : trainer.sharding().units()) {
            EXPECT_TRUE(unit->ExpectState(UnitState::kSharded, "rest").ok());
          }
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(Strategies, RestTest, ::testing::ValuesIn(RestCases()),
                         [](const auto& instance) { return instance.param.name(); });

// Bytes: S of shards, E of the root, L of a block. Forward gathers the root and two blocks at a
// time, less than the S + 3L + E that peers allow; without resharding it gathers everything.
TEST(PeakTest, AForwardHoldsTheRootAndTwoBlocks) {
  const absl::Status status = RunSmallGpt2(
      kWorld, OptionsOf("full_shard"),
      [](Trainer& trainer, Device& device, int rank) -> absl::Status {
        const int64_t s = kNumel, e = 4 * kRootNumel, l = 4 * kBlockNumel;  // S: 4 bytes / 4 ranks
        for (int step = 0; step < 3; ++step) {
          device.allocator().ResetPeaks();
          ZEROTH_RETURN_IF_ERROR(trainer.Evaluate(MicroBatches(rank, step, 1)[0]).status());
          ZEROTH_RETURN_IF_ERROR(trainer.sharding().scheduler().EndStep());
          const MemoryStats memory = device.allocator().stats();
          EXPECT_EQ(memory[MemoryCategory::kParameters].peak_bytes, s);
          EXPECT_LE(memory[MemoryCategory::kGatheredParameters].peak_bytes, e + 2 * l);
          EXPECT_GE(memory[MemoryCategory::kGatheredParameters].peak_bytes, e + l);
          EXPECT_EQ(memory[MemoryCategory::kGatheredParameters].current_bytes, 0);
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

// Two buffers for parameters and two for gradients, besides the root's own of each.
TEST(PeakTest, AStepTakesFourShardsFourBlocksAndTheRootTwice) {
  for (const bool reshard : {true, false}) {
    TrainerOptions options = OptionsOf("full_shard");
    options.sharding.strategy_options.reshard_after_forward = reshard;
    const absl::Status status = RunSmallGpt2(
        kWorld, options, [&](Trainer& trainer, Device& device, int rank) -> absl::Status {
          const int64_t s = kNumel, e = 4 * kRootNumel, l = 4 * kBlockNumel;
          for (int step = 0; step < 3; ++step) {
            ZEROTH_RETURN_IF_ERROR(trainer.Step(MicroBatches(rank, step, 1), 1e-3).status());
          }
          const MemoryStats memory = device.allocator().stats();
          const auto peak = [&](MemoryCategory category) { return memory[category].peak_bytes; };
          EXPECT_EQ(peak(MemoryCategory::kParameters), s);
          EXPECT_EQ(peak(MemoryCategory::kGatheredParameters),
                    reshard ? e + 2 * l : e + kBlocks * l);
          EXPECT_EQ(peak(MemoryCategory::kGradients), s + e + 2 * l);
          EXPECT_EQ(peak(MemoryCategory::kOptimizer), 2 * s);
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace zeroth::testing
