// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests which buffers registered with a transport are kept, and that gathers use them.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/nccl/emulation/emulated_nccl.h"
#include "zeroth/core/comm/nccl/testing/nccl_test_ranks.h"
#include "zeroth/core/device/device.h"
#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/strategies/testing/toy_model.h"

namespace zeroth {
namespace {

using testing::OnCuda;
using testing::RunNcclThreads;
using testing::TestRank;

const LauncherRegistration registration("nccl_threads", RunNcclThreads);

constexpr MemoryCategory kCategory = MemoryCategory::kGatheredParameters;

int64_t Current(Device& device) { return device.allocator().stats()[kCategory].current_bytes; }

absl::Status RunRanks(const std::string& copy_engine, const RankMain& rank_main) {
  LaunchOptions options;
  options.world_size = 2;
  options.nccl_copy_engine = copy_engine;
  return RunNcclThreads(options, rank_main);
}

TEST(RegisteredBuffersTest, BelongToTheSetForItsLifetime) {
  const absl::Status status =
      RunRanks("auto", OnCuda([](TestRank& rank) -> absl::Status {
                 Stream& stream = rank.stream;
                 {
                   BufferSet set(rank.device, kCategory, {4096}, 2);
                   set.RegisterWith({&rank.world});
                   ZEROTH_ASSIGN_OR_RETURN(Tensor first, set.Acquire(100, stream));
                   EXPECT_EQ(first.bytes(), 4096u);
                   void* const place = first.raw_data();
                   ZEROTH_ASSIGN_OR_RETURN(Tensor second, set.Acquire(4096, stream));
                   // Buffers beyond the limit or above the size are ordinary memory.
                   ZEROTH_ASSIGN_OR_RETURN(Tensor third, set.Acquire(4096, stream));
                   ZEROTH_ASSIGN_OR_RETURN(Tensor large, set.Acquire(5000, stream));
                   EXPECT_EQ(Current(rank.device), 3 * 4096 + 5000);
                   set.Release(std::move(third), nullptr);
                   set.Release(std::move(large), nullptr);
                   EXPECT_EQ(Current(rank.device), 2 * 4096);
                   set.Release(std::move(first), nullptr);
                   set.Release(std::move(second), nullptr);
                   ZEROTH_RETURN_IF_ERROR(set.Trim());
                   EXPECT_EQ(Current(rank.device), 2 * 4096);
                   ZEROTH_ASSIGN_OR_RETURN(first, set.Acquire(1, stream));
                   EXPECT_EQ(first.raw_data(), place);
                   set.Release(std::move(first), nullptr);
                 }
                 EXPECT_EQ(Current(rank.device), 0);
                 return absl::OkStatus();
               }));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(RegisteredBuffersTest, AreOrdinaryWhereNobodyWantsToKnow) {
  const absl::Status status =
      RunRanks("off", OnCuda([](TestRank& rank) -> absl::Status {
                 BufferSet set(rank.device, kCategory, {4096}, 2);
                 set.RegisterWith({&rank.world});
                 ZEROTH_ASSIGN_OR_RETURN(Tensor buffer, set.Acquire(100, rank.stream));
                 set.Release(std::move(buffer), nullptr);
                 EXPECT_EQ(Current(rank.device), 4096);
                 ZEROTH_RETURN_IF_ERROR(set.Trim());
                 EXPECT_EQ(Current(rank.device), 0);
                 return absl::OkStatus();
               }));
  EXPECT_TRUE(status.ok()) << status;
}

// A memory source, and a group that has no use for registered memory (it has one rank).
TEST(RegisteredBuffersTest, GroupsThatSayNoAreAskedOnce) {
  const absl::Status status =
      RunRanks("auto", OnCuda([](TestRank& rank) -> absl::Status {
                 ZEROTH_ASSIGN_OR_RETURN(const auto alone, rank.world.Split(rank.rank(), 0));
                 BufferSet set(rank.device, kCategory, {4096}, 2);
                 set.RegisterWith({alone.get()});
                 ZEROTH_ASSIGN_OR_RETURN(Tensor buffer, set.Acquire(100, rank.stream));
                 EXPECT_EQ(Current(rank.device), 4096);
                 set.Release(std::move(buffer), nullptr);
                 ZEROTH_RETURN_IF_ERROR(set.Trim());
                 EXPECT_EQ(Current(rank.device), 0);
                 return absl::OkStatus();
               }));
  EXPECT_TRUE(status.ok()) << status;
}

// All gathers of a step, including those of the root and of units that stay gathered, from fp32
// shards and from rounded ones.
TEST(RegisteredBuffersTest, AllGathersOfAStepUseThem) {
  for (const char* const strategy : {"full_shard", "shard_grad_op"}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const int64_t before = nccl::emulation::CopyEngineGathers();
      int64_t gathers[2] = {};
      const absl::Status status = RunToyRanks(
          2, "cuda",
          [&](Communicator& world, Device& device) -> absl::Status {
            ToyModel model(UniformUnits(2));
            ShardingOptions options;
            options.strategy = strategy;
            options.mixed_precision.param_dtype = dtype;
            ZEROTH_ASSIGN_OR_RETURN(const auto sharding,
                                    Sharding::Create(world, device, options, model.Specs()));
            ZEROTH_RETURN_IF_ERROR(sharding->Initialize(3));
            for (int step = 0; step < 2; ++step) {
              for (Unit* const unit : sharding->units()) {
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().BeforeForward(*unit, false));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().AfterForward(*unit, false));
              }
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
            }
            ZEROTH_RETURN_IF_ERROR(device.compute_stream().Synchronize());
            gathers[world.rank()] =
                ViewOf(*sharding).shard_gather().stats()[CollectiveOp::kAllGather].calls;
            return absl::OkStatus();
          },
          "nccl_threads");
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(gathers[0], gathers[1]);
      EXPECT_GE(gathers[0], 6);
      EXPECT_EQ(nccl::emulation::CopyEngineGathers() - before, gathers[0] + gathers[1]) << strategy;
    }
  }
}

}  // namespace
}  // namespace zeroth
