// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What the ranks that share layers send each other in a step, how much less memory they need, and
// that they agree in logits: from the communicators' records, against the table of docs/parallelism.md.

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/mesh.h"
#include "zeroth/optim/muon.h"
#include "zeroth/tests/structure/small_gpt2.h"

namespace zeroth::testing {
namespace {

constexpr int64_t kRows = 8;  // of a micro-batch
constexpr int64_t kActivationBytes = kRows * kWidth * 4;

struct Sent {
  int64_t calls = 0;
  int64_t bytes = 0;  // of full buffers, as the group of two sends them: see CollectiveBytes
  bool operator==(const Sent&) const = default;
  friend void PrintTo(const Sent& traffic, std::ostream* out) {
    *out << traffic.calls << " calls, " << traffic.bytes << " bytes";
  }
};
using ByOp = std::map<CollectiveOp, Sent>;

TrainerOptions Divided(bool sequence) {
  TrainerOptions options = OptionsOf("full_shard");
  options.tensor.size = 2;
  options.tensor.sequence = sequence;
  return options;
}

// What rank 0 sends in the group of its tensor ranks in the second step; the units of the others
// are another matter.
ByOp SentInAStep(bool sequence, int64_t* activation_peak) {
  ByOp sent;
  const absl::Status status = RunSmallGpt2(
      4, Divided(sequence), [&](Trainer& trainer, Device& device, int rank) -> absl::Status {
        const int data_rank = rank / 2;
        ZEROTH_RETURN_IF_ERROR(trainer.Step(MicroBatches(data_rank, 0, 1), 1e-2).status());
        Mesh& mesh = trainer.sharding().mesh();
        ZEROTH_ASSIGN_OR_RETURN(const Mesh::Axes axes, mesh.Find({kTensorAxis}));
        ZEROTH_ASSIGN_OR_RETURN(Communicator* const group, mesh.Group(axes, Traffic::kActivations));
        group->stats().EnableRecord(true);
        device.allocator().ResetPeaks();
        ZEROTH_RETURN_IF_ERROR(trainer.Step(MicroBatches(data_rank, 1, 1), 1e-2).status());
        if (rank != 0) return absl::OkStatus();
        for (const CommStats::Entry& entry : group->stats().TakeRecord()) {
          ++sent[entry.op].calls;
          sent[entry.op].bytes += entry.bytes;
        }
        *activation_peak = device.allocator().stats()[MemoryCategory::kActivations].peak_bytes;
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return sent;
}

TEST(TensorTrafficTest, AStepSendsWhatTheTableSays) {
  int64_t plain_peak = 0;
  // Of two ranks, an all-reduce sends the buffer once, and a gather or a reduce-scatter half of it.
  const int64_t statistics = 2 * kRows * 3 * 4 / 2;
  EXPECT_EQ(
      SentInAStep(/*sequence=*/false, &plain_peak),
      (ByOp{{CollectiveOp::kAllReduce, {4 * kBlocks + 2, (4 * kBlocks + 2) * kActivationBytes}},
            {CollectiveOp::kAllGather, {1, statistics}}}));
  int64_t sequence_peak = 0;
  const int64_t norms = 2 * (2 * kBlocks + 1);  // weights and biases
  EXPECT_EQ(SentInAStep(/*sequence=*/true, &sequence_peak),
            (ByOp{{CollectiveOp::kAllReduce, {norms, norms * kWidth * 4}},
                  {CollectiveOp::kReduceScatter,
                   {4 * kBlocks + 2, (4 * kBlocks + 2) * kActivationBytes / 2}},
                  {CollectiveOp::kAllGather,
                   {6 * kBlocks + 3, (6 * kBlocks + 2) * kActivationBytes / 2 + statistics}}}));
  EXPECT_LT(sequence_peak, plain_peak);
}

// Every parameter of the blocks but norms and two biases is divided, and counted once.
TEST(TensorTrafficTest, ARankHoldsItsParts) {
  const absl::Status status =
      RunSmallGpt2(2, Divided(false), [](Trainer& trainer, Device&, int) -> absl::Status {
        int64_t here = 0;
        for (const Parameter* parameter : trainer.model().Parameters()) here += parameter->numel();
        // Half of a block's matrices and of the biases of outputs; whole norms and other biases.
        const int64_t block = 6 * kWidth * kWidth + (7 * kWidth) / 2 + 6 * kWidth;
        EXPECT_EQ(here, kBlocks * block + (kVocabulary / 2 + kPositions + 2) * kWidth);
        EXPECT_EQ(trainer.model().ParameterCount(), kNumel);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(TensorTrafficTest, LogitsAreThoseOfTheWholeModel) {
  std::mutex mutex;
  std::map<int, std::vector<std::vector<float>>> logits;  // by tensor ranks, of each rank
  for (const int size : {1, 2}) {
    TrainerOptions options = OptionsOf("full_shard");
    options.tensor.size = size;
    options.tensor.sequence = size > 1;  // which logits of one token must not mind
    const absl::Status status =
        RunSmallGpt2(2, options, [&](Trainer& trainer, Device&, int) -> absl::Status {
          ZEROTH_ASSIGN_OR_RETURN(const Tensor values,
                                  trainer.Logits(std::vector<int32_t>{3, 1, 60, 31, 32}, 3));
          EXPECT_EQ(values.shape(), Shape({1, 2, kVocabulary}));
          ZEROTH_ASSIGN_OR_RETURN(std::vector<float> mine, values.ToHost<float>());
          const std::lock_guard<std::mutex> lock(mutex);
          logits[size].push_back(std::move(mine));
          return trainer.sharding().scheduler().EndStep();
        });
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(logits[2][0], logits[2][1]);
  EXPECT_THAT(logits[2][0], ::testing::Pointwise(::testing::FloatNear(1e-5f), logits[1][0]));
}

TEST(TensorTrafficTest, EachOfMuonsMatricesIsComputedByOneRankOfAll) {
  for (const char* strategy : {"no_shard", "full_shard"}) {
    std::mutex mutex;
    std::map<std::string, int> computed;  // how often in a step
    size_t most = 0;
    TrainerOptions options = Divided(false);
    options.sharding.strategy = strategy;
    options.optimizer = "muon";
    const absl::Status status =
        RunSmallGpt2(4, options, [&](Trainer& trainer, Device&, int) -> absl::Status {
          const auto* muon = dynamic_cast<const Muon*>(&trainer.optimizer());
          if (muon == nullptr) return absl::InternalError("the optimizer is not Muon");
          const std::vector<std::string> own = muon->own_matrices();
          const std::lock_guard<std::mutex> lock(mutex);
          most = std::max(most, own.size());
          for (const std::string& name : own) ++computed[name];
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(computed.size(), static_cast<size_t>(4 * kBlocks)) << strategy;
    for (const auto& [name, times] : computed) EXPECT_EQ(times, 1) << strategy << " " << name;
    EXPECT_LT(most, computed.size()) << strategy;
  }
}

// docs/optimizers.md: all-to-alls over the ranks of all parts of a matrix; broadcasts, between
// copies of these, of each matrix. Two tensor ranks of each of two data ranks.
TEST(TensorTrafficTest, MuonExchangesWhatTheTableSays) {
  constexpr int64_t kMatrixBytes = kBlocks * 12 * kWidth * kWidth * 4;
  for (const char* strategy : {"no_shard", "full_shard"}) {
    SCOPED_TRACE(strategy);
    std::mutex mutex;
    std::vector<ByOp> ranks;
    std::map<std::string, int64_t> bytes;  // of all ranks, by what they are for
    size_t rounds = 0;
    TrainerOptions options = Divided(false);
    options.sharding.strategy = strategy;
    options.optimizer = "muon";
    const absl::Status status =
        RunSmallGpt2(4, options, [&](Trainer& trainer, Device&, int rank) -> absl::Status {
          const std::vector<Communicator*> groups = trainer.sharding().communicators();
          for (Communicator* group : groups) group->stats().EnableRecord(true);
          ZEROTH_RETURN_IF_ERROR(trainer.Step(MicroBatches(rank / 2, 0, 1), 1e-2).status());
          const std::lock_guard<std::mutex> lock(mutex);
          rounds = std::max(rounds,
                            dynamic_cast<const Muon&>(trainer.optimizer()).own_matrices().size());
          ByOp sent;
          for (Communicator* group : groups) {
            for (const CommStats::Entry& entry : group->stats().TakeRecord()) {
              if (!absl::StartsWith(entry.label, "muon ")) continue;
              ++sent[entry.op].calls;
              sent[entry.op].bytes += entry.bytes;
              bytes[entry.label.substr(entry.label.rfind(' ') + 1)] += entry.bytes;
            }
          }
          ranks.push_back(std::move(sent));
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status;
    const bool is_copied = std::string(strategy) == "no_shard";
    for (const ByOp& sent : ranks) {
      EXPECT_EQ(sent.at(CollectiveOp::kAllToAll).calls, 2 * static_cast<int64_t>(rounds));
      EXPECT_EQ(sent.size(), is_copied ? 2u : 1u);
    }
    EXPECT_EQ(bytes["in"], bytes["out"]) << "what comes in goes out";
    EXPECT_LT(bytes["in"], kMatrixBytes) << "what a rank has of its own matrices stays";
    if (!is_copied) continue;
    // Of each matrix one rank computes, which has half of it; either half of the result goes from
    // the rank of one copy to that of the other, which both count it.
    EXPECT_EQ(bytes["in"], kMatrixBytes / 2);
    EXPECT_EQ(bytes["copy"], 2 * kMatrixBytes);
  }
}

TEST(TensorTrafficTest, WhatCannotBeDividedIsSaid) {
  const auto expect_error = [](int world_size, const TrainerOptions& options,
                               const std::string& words) {
    const absl::Status status =
        RunSmallGpt2(world_size, options, [](Trainer&, Device&, int) { return absl::OkStatus(); });
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  };
  expect_error(3, Divided(false), "2 tensor ranks do not divide the 3 of the world");
  TrainerOptions eight = Divided(false);
  eight.tensor.size = 8;
  expect_error(8, eight, "2 heads cannot be divided among 8 tensor ranks");
  TrainerOptions three = Divided(false);
  three.tensor.deterministic = 3;
  expect_error(2, three, "expected a power of two that the ranks divide");
  TrainerOptions both = Divided(true);
  both.tensor.deterministic = 2;
  expect_error(2, both, "leave one of them out");
}

}  // namespace
}  // namespace zeroth::testing
