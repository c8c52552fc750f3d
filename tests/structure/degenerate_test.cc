// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests sharding with little or nothing to do: groups of one rank, one unit, nothing to train.

#include <cstdint>
#include <map>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/shard_module.h"
#include "zeroth/tests/structure/small_gpt2.h"

namespace zeroth::testing {
namespace {

constexpr int kSteps = 3;

struct Outcome {
  std::vector<float> losses;
  std::vector<double> norms;
  std::map<std::string, std::vector<float>> weights;  // full, as rank 0 gathers them
  int64_t calls = 0;                                  // of rank 0, whatever the group
  bool operator==(const Outcome& other) const {
    return losses == other.losses && norms == other.norms && weights == other.weights;
  }
  friend std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
    return out << "losses " << absl::StrJoin(outcome.losses, " ") << ", norms "
               << absl::StrJoin(outcome.norms, " ");
  }
};

absl::Status TrainRank(Trainer& trainer, int rank, int micro_batches, Outcome& outcome) {
  for (int step = 0; step < kSteps; ++step) {
    ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                            trainer.Step(MicroBatches(rank, step, micro_batches), 1e-2));
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.grad_norm);
  }
  for (const CommStats::Counter& counter : trainer.sharding().stats().collectives) {
    outcome.calls += counter.calls;
  }
  for (const CommStats::Counter& counter : trainer.world().stats().counters()) {
    outcome.calls += counter.calls;
  }
  return trainer.sharding().VisitFull(
      [&](const Parameter& parameter, int64_t, absl::Span<const float> values) {
        outcome.weights[parameter.name()].assign(values.begin(), values.end());
        return absl::OkStatus();
      });
}

Outcome Train(int world_size, const TrainerOptions& options, int micro_batches) {
  std::mutex mutex;
  Outcome outcome;
  const absl::Status status =
      RunSmallGpt2(world_size, options, [&](Trainer& trainer, Device&, int rank) -> absl::Status {
        Outcome mine;
        ZEROTH_RETURN_IF_ERROR(TrainRank(trainer, rank, micro_batches, mine));
        const std::lock_guard<std::mutex> lock(mutex);
        if (rank == 0) outcome = std::move(mine);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(outcome.losses.size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(outcome.weights.size(),
            static_cast<size_t>(kRootParameters + kBlockParameters * kBlocks));
  return outcome;
}

// Accumulation over micro-batches must not count replicated gradients twice.
TEST(DegenerateTest, AShardGroupOfOneIsUnsharded) {
  for (const int micro_batches : {1, 3}) {
    for (const bool sync_every : {true, false}) {
      TrainerOptions whole = OptionsOf("no_shard");
      whole.sync_every_micro_batch = sync_every;
      TrainerOptions hybrid = OptionsOf("hybrid_shard", 1);
      hybrid.sync_every_micro_batch = sync_every;
      EXPECT_EQ(Train(2, whole, micro_batches), Train(2, hybrid, micro_batches))
          << micro_batches << " micro-batches, synchronised " << (sync_every ? "each" : "last");
    }
  }
}

TEST(DegenerateTest, OneRankSendsNothingUnderAnyStrategy) {
  const Outcome plain = Train(1, OptionsOf("no_shard"), 3);
  EXPECT_EQ(plain.calls, 0);
  for (const char* strategy : {"shard_optimizer", "shard_grad_op", "full_shard", "hybrid_shard"}) {
    const int shard_size = std::string(strategy) == "hybrid_shard" ? 1 : 0;
    const Outcome outcome = Train(1, OptionsOf(strategy, shard_size), 3);
    EXPECT_EQ(outcome.calls, 0) << strategy;
    EXPECT_EQ(outcome, plain) << strategy;
  }
}

TEST(DegenerateTest, OneUnitIsTheWholeModel) {
  const Outcome in_blocks = Train(2, OptionsOf("no_shard"), 1);
  for (const char* strategy :
       {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard", "hybrid_shard"}) {
    TrainerOptions options = OptionsOf(strategy, std::string(strategy) == "hybrid_shard" ? 2 : 0);
    options.wrap = WrapNothing();
    EXPECT_EQ(Train(2, options, 1), in_blocks) << strategy;
  }
}

TEST(DegenerateTest, EverythingFrozenTrainsNothingAndReducesNothing) {
  for (const char* strategy :
       {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard", "hybrid_shard"}) {
    TrainerOptions options = OptionsOf(strategy, std::string(strategy) == "hybrid_shard" ? 1 : 0);
    options.sync_every_micro_batch = true;
    const absl::Status status = RunSmallGpt2(
        2, options,
        [&](Trainer& trainer, Device& device, int rank) -> absl::Status {
          std::vector<float> losses;
          for (int step = 0; step < 2; ++step) {
            // The same batches each time: the loss moves only if weights do.
            ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                                    trainer.Step(MicroBatches(rank, 0, 3), 1e-2));
            EXPECT_EQ(result.grad_norm, 0);
            EXPECT_FALSE(result.skipped);
            losses.push_back(result.loss);
          }
          EXPECT_EQ(losses[0], losses[1]);
          const ShardingStats stats = trainer.sharding().stats();
          EXPECT_EQ(stats.collectives[static_cast<size_t>(CollectiveOp::kReduceScatter)].calls, 0);
          EXPECT_EQ(stats.memory[MemoryCategory::kGradients].peak_bytes, 0);
          EXPECT_EQ(stats.memory[MemoryCategory::kOptimizer].peak_bytes, 0);
          EXPECT_EQ(device.allocator().stats()[MemoryCategory::kGatheredParameters].current_bytes,
                    0);
          return absl::OkStatus();
        },
        [](LanguageModel& model) {
          for (Parameter* parameter : model.Parameters()) parameter->set_requires_grad(false);
        });
    EXPECT_TRUE(status.ok()) << strategy << ": " << status;
  }
}

TEST(DegenerateTest, AStepNeedsMicroBatchesOfOneShape) {
  const absl::Status status = RunSmallGpt2(
      2, OptionsOf("full_shard"), [](Trainer& trainer, Device&, int rank) -> absl::Status {
        const absl::Status none = trainer.Step(absl::Span<const Batch>(), 1e-2).status();
        EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument) << none;
        EXPECT_NE(none.message().find("at least one"), absl::string_view::npos) << none;
        std::vector<Batch> uneven = MicroBatches(rank, 0, 2);
        uneven[1].batch = 1;
        uneven[1].inputs.resize(4);
        uneven[1].targets.resize(4);
        const absl::Status mixed = trainer.Step(uneven, 1e-2).status();
        EXPECT_EQ(mixed.code(), absl::StatusCode::kInvalidArgument) << mixed;
        EXPECT_NE(mixed.message().find("2 x 4 and 1 x 4"), absl::string_view::npos) << mixed;
        // Neither has started anything.
        return trainer.Step(MicroBatches(rank, 0, 2), 1e-2).status();
      });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace zeroth::testing
