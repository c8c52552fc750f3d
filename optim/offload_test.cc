// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares the optimizer and the gradient norm on offloaded state with those on state in memory.

#include "zeroth/strategies/offload.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/testing/faulty_store.h"
#include "zeroth/optim/adamw.h"
#include "zeroth/optim/clip_grad_norm.h"
#include "zeroth/optim/testing/ranks.h"

namespace zeroth {
namespace {

using testing::Layout;
using testing::Rank;

constexpr int64_t kMatrix = 7 * 23;
constexpr int64_t kVector = 29;

std::vector<float> Draw(const std::string& name, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  CounterRng(3, name).FillNormal(0, 1.0f, absl::MakeSpan(values));
  return values;
}

OffloadOptions OffloadOf(int subset) {
  OffloadOptions options;
  options.parameters = (subset & 1) != 0;
  options.gradients = (subset & 2) != 0;
  options.optimizer = (subset & 4) != 0;
  options.chunk_numel = 9;
  return options;
}

// Everything that could differ: norms of all steps, then parameters. Step 1 freezes the matrix, and
// the gradient of step 3 is not finite.
using Trace = std::vector<float>;

absl::Status TrainRank(const Layout& layout, Communicator& world, Trace& trace) {
  Rank rank(world, Shape({7, 23}), Shape({kVector}));
  ZEROTH_RETURN_IF_ERROR(rank.Open(layout));
  ZEROTH_RETURN_IF_ERROR(rank.Load(Draw("m", kMatrix), Draw("v", kVector)));
  ZEROTH_ASSIGN_OR_RETURN(auto adamw, AdamW::Create(*rank.sharding, *rank.kernels, AdamWOptions()));
  for (int step = 0; step < 5; ++step) {
    std::vector<float> matrix = Draw(absl::StrCat("gm", step), kMatrix);
    if (step == 3) matrix[5] = std::numeric_limits<float>::quiet_NaN();
    ZEROTH_RETURN_IF_ERROR(rank.Backward(matrix, Draw(absl::StrCat("gv", step), kVector)));
    rank.matrix.set_requires_grad(step != 1);
    ZEROTH_ASSIGN_OR_RETURN(const Tensor norm_and_scale,
                            GradNormAndScale(*rank.sharding, *rank.kernels, 1.0));
    ZEROTH_RETURN_IF_ERROR(adamw->Step(0.01, 1.0, norm_and_scale.View(1, Shape({1}))));
    rank.matrix.set_requires_grad(true);
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> norm, norm_and_scale.ToHost<float>());
    if (std::isnan(norm[0])) {
      adamw->ForgetSkippedStep();
    } else {
      trace.push_back(norm[0]);
    }
    ZEROTH_RETURN_IF_ERROR(rank.sharding->scheduler().EndStep());
  }
  EXPECT_EQ(adamw->step(), 4);
  std::vector<float> matrix, vector;
  ZEROTH_RETURN_IF_ERROR(rank.Read(matrix, vector));
  trace.insert(trace.end(), matrix.begin(), matrix.end());
  trace.insert(trace.end(), vector.begin(), vector.end());
  return absl::OkStatus();
}

Trace Train(const Layout& layout) {
  Trace first;
  const absl::Status status = RunLocalRanks(layout.world_size, [&](Communicator& world) {
    Trace mine;
    const absl::Status trained = TrainRank(layout, world, mine);
    if (world.rank() == 0) first = mine;
    return trained;
  });
  EXPECT_EQ(status, absl::OkStatus());
  return first;
}

TEST(OffloadTest, EverySubsetOfTheStateGivesTheSameBits) {
  std::vector<Layout> layouts = testing::AllLayouts();
  layouts.push_back({"shard_optimizer", 2, 0, 0});
  layouts.push_back({"shard_optimizer", 4, 0, 0});
  for (Layout& layout : layouts) {
    if (layout.world_size > 4) continue;
    SCOPED_TRACE(absl::StrCat(layout.strategy, " at ", layout.world_size, ", whole below ",
                              layout.min_shard_numel));
    const Trace in_memory = Train(layout);
    ASSERT_EQ(in_memory.size(), static_cast<size_t>(4 + kMatrix + kVector));
    for (int subset = 1; subset < 8; ++subset) {
      layout.offload = OffloadOf(subset);
      EXPECT_EQ(Train(layout), in_memory) << "subset " << subset;
    }
  }
}

TEST(OffloadTest, MomentsTakeNoMemoryAndAnUpdateThreeChunks) {
  for (int subset = 0; subset < 8; ++subset) {
    SCOPED_TRACE(absl::StrCat("subset ", subset));
    const absl::Status status = RunLocalRanks(2, [&](Communicator& world) -> absl::Status {
      Layout layout{"full_shard", 2};
      layout.offload = OffloadOf(subset);
      Rank rank(world, Shape({7, 23}), Shape({kVector}));
      ZEROTH_RETURN_IF_ERROR(rank.Open(layout));
      ZEROTH_ASSIGN_OR_RETURN(auto adamw,
                              AdamW::Create(*rank.sharding, *rank.kernels, AdamWOptions()));
      ZEROTH_RETURN_IF_ERROR(rank.Backward(Draw("m", kMatrix), Draw("v", kVector)));
      rank.device->allocator().ResetPeaks();
      const int64_t read_before = rank.sharding->stats().offload.bytes_read;
      ZEROTH_RETURN_IF_ERROR(adamw->Step(0.01));
      const ShardingStats stats = rank.sharding->stats();
      const int64_t shard_bytes = 4 * rank.sharding->units()[0]->segment_layout(0).shard_numel;
      EXPECT_EQ(adamw->MemoryBytes(), 2 * shard_bytes);
      EXPECT_EQ(stats.memory[MemoryCategory::kOptimizer].current_bytes,
                layout.offload.optimizer ? 0 : 2 * shard_bytes);
      const int kinds = (layout.offload.parameters ? 1 : 0) + (layout.offload.gradients ? 1 : 0) +
                        (layout.offload.optimizer ? 2 : 0);
      EXPECT_EQ(stats.offload.reserved_bytes, kinds * shard_bytes);
      EXPECT_EQ(stats.offload.bytes_read - read_before, kinds * shard_bytes);
      // A chunk of nine elements is 64 bytes with its alignment.
      EXPECT_EQ(stats.memory[MemoryCategory::kOffloadStaging].peak_bytes,
                StatePasses::kSlots * kinds * 64);
      EXPECT_EQ(stats.memory[MemoryCategory::kOffloadStaging].current_bytes, 0);
      return rank.sharding->scheduler().EndStep();
    });
    EXPECT_EQ(status, absl::OkStatus());
  }
}

// Only rank 1's disk breaks, at any point of an update; rank 0 learns of it in the next collective.
TEST(OffloadTest, AStoreThatBreaksInAnUpdateIsEveryRanksError) {
  for (int64_t good = 0; good < 60; good += 7) {
    const absl::Status status = RunLocalRanks(2, [&](Communicator& world) -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                              DeviceRegistry::Create("cpu", DeviceOptions()));
      ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<OffloadStore> own, device->CreateOffloadStore({}));
      const auto store = std::make_shared<FaultyStore>(std::move(own), INT64_MAX);
      Layout layout{"full_shard", 2};
      layout.offload = OffloadOf(4);
      layout.offload.store = store;
      Rank rank(world, Shape({7, 23}), Shape({kVector}));
      ZEROTH_RETURN_IF_ERROR(rank.Open(layout));
      ZEROTH_ASSIGN_OR_RETURN(auto adamw,
                              AdamW::Create(*rank.sharding, *rank.kernels, AdamWOptions()));
      if (world.rank() == 1) store->set_good(good);
      const auto train = [&]() -> absl::Status {
        for (int step = 0; step < 100; ++step) {
          ZEROTH_RETURN_IF_ERROR(rank.Backward(Draw("m", kMatrix), Draw("v", kVector)));
          ZEROTH_RETURN_IF_ERROR(adamw->Step(0.01));
          ZEROTH_RETURN_IF_ERROR(rank.sharding->scheduler().EndStep());
        }
        return absl::OkStatus();
      };
      const absl::Status trained = train();
      EXPECT_FALSE(trained.ok());
      if (world.rank() == 1) {
        EXPECT_TRUE(absl::StrContains(trained.message(), "AdamW: the disk is broken")) << trained;
      }
      return trained;
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  }
}

}  // namespace
}  // namespace zeroth
