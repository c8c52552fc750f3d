// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The average of a whole model's weights, kept by the trainer.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/tests/finetuning/tiny_run.h"

namespace zeroth::testing {
namespace {

constexpr double kDecay = 0.8;
constexpr int64_t kSteps = 4;

struct Averaged {
  std::vector<NamedValues> weights;  // after each step
  NamedValues average;               // at the end
};

absl::StatusOr<Averaged> Train(const TinySetup& setup) {
  std::vector<Collector> weights(kSteps);
  Collector average;
  const absl::Status status = RunTiny(setup, [&](TinyRank& rank) -> absl::Status {
    for (int64_t step = 0; step < kSteps; ++step) {
      ZEROTH_RETURN_IF_ERROR(rank.Step(step, /*lr=*/1e-2).status());
      ZEROTH_RETURN_IF_ERROR(
          weights[static_cast<size_t>(step)].PutWeights(rank.trainer.sharding()));
    }
    ZEROTH_RETURN_IF_ERROR(rank.trainer.ema()->Swap());
    ZEROTH_RETURN_IF_ERROR(average.PutWeights(rank.trainer.sharding()));
    // Training continues with the weights, not with their average.
    EXPECT_EQ(rank.Step(kSteps, 1e-2).status().code(), absl::StatusCode::kFailedPrecondition);
    return rank.trainer.ema()->Swap();
  });
  ZEROTH_RETURN_IF_ERROR(status);
  Averaged averaged;
  for (const Collector& step : weights) averaged.weights.push_back(step.values());
  averaged.average = average.values();
  return averaged;
}

// In float, operation by operation.
NamedValues Reference(const std::vector<NamedValues>& weights) {
  NamedValues average = weights[0];
  for (size_t step = 1; step < weights.size(); ++step) {
    for (auto& [name, values] : average) {
      for (size_t i = 0; i < values.size(); ++i) {
        const float difference = weights[step].at(name)[i] - values[i];
        const float part = static_cast<float>(1 - kDecay) * difference;
        values[i] += part;
      }
    }
  }
  return average;
}

TEST(EmaTest, StrategiesKeepTheSameAverageToTheLastBit) {
  std::map<int, NamedValues> first;
  for (const TinyRanks& ranks : AllTinyRanks()) {
    TinySetup setup;
    setup.ranks = ranks;
    setup.trainer.ema_decay = kDecay;
    const absl::StatusOr<Averaged> averaged = Train(setup);
    ASSERT_TRUE(averaged.ok()) << averaged.status();
    EXPECT_TRUE(averaged->average == Reference(averaged->weights)) << ranks.ToString();
    const NamedValues& expected = first.emplace(ranks.world_size, averaged->average).first->second;
    EXPECT_TRUE(averaged->average == expected) << ranks.ToString();
  }
}

TEST(EmaTest, InAStoreItIsTheSameToTheLastBitAndTakesNoMemory) {
  const TemporaryDirectory directory;
  TinySetup setup;
  setup.ranks = {"full_shard", 3, 0};
  setup.trainer.ema_decay = kDecay;
  setup.trainer.sharding.offload.directory = directory.path();
  setup.trainer.sharding.offload.optimizer = true;
  for (const bool parameters : {false, true}) {
    setup.trainer.sharding.offload.parameters = parameters;
    setup.trainer.sharding.offload.chunk_numel = 1008;  // several chunks, the last one shorter
    const absl::StatusOr<Averaged> averaged = Train(setup);
    ASSERT_TRUE(averaged.ok()) << averaged.status();
    EXPECT_TRUE(averaged->average == Reference(averaged->weights)) << parameters;
    const absl::Status status = RunTiny(setup, [](TinyRank& rank) -> absl::Status {
      const MemoryStats memory = rank.trainer.device().allocator().stats();
      EXPECT_EQ(memory[MemoryCategory::kOptimizer].current_bytes, 0);
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<ShardState> states, rank.trainer.ema()->states());
      EXPECT_FALSE(states.empty());
      for (const ShardState& state : states) EXPECT_TRUE(state.shard.is_offloaded());
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(EmaTest, InBFloat16ItIsOfTheMasters) {
  TinySetup setup;
  setup.ranks = {"no_shard", 2, 0};
  setup.trainer.ema_decay = kDecay;
  setup.trainer.sharding.mixed_precision = {DType::kBFloat16, DType::kBFloat16};
  const absl::StatusOr<Averaged> averaged = Train(setup);
  ASSERT_TRUE(averaged.ok()) << averaged.status();
  EXPECT_TRUE(averaged->average == Reference(averaged->weights));
}

TEST(EmaTest, MastersInLessThanFloatAreRefused) {
  TinySetup setup;
  setup.trainer.ema_decay = kDecay;
  setup.trainer.sharding.mixed_precision = {DType::kBFloat16, DType::kBFloat16, DType::kBFloat16};
  const absl::Status status = RunTiny(setup, [](TinyRank&) { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("are bf16, expected fp32"), std::string::npos) << status;
}

TEST(EmaTest, SkippedStepsAreLeftOut) {
  TinySetup setup;
  setup.ranks = {"full_shard", 2, 0};
  setup.trainer.ema_decay = kDecay;
  const absl::Status status = RunTiny(setup, [](TinyRank& rank) -> absl::Status {
    // Weights out of float's range: the next gradients are not finite.
    ZEROTH_ASSIGN_OR_RETURN(const StepResult exploding, rank.Step(0, /*lr=*/1e38));
    EXPECT_FALSE(exploding.skipped);
    EXPECT_EQ(rank.trainer.ema()->updates(), 1);
    ZEROTH_ASSIGN_OR_RETURN(const StepResult skipped, rank.Step(1, /*lr=*/1e38));
    EXPECT_TRUE(skipped.skipped);
    EXPECT_EQ(rank.trainer.ema()->updates(), 1);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(EmaTest, IsOffUnlessAskedFor) {
  const absl::Status status = RunTiny(TinySetup(), [](TinyRank& rank) -> absl::Status {
    EXPECT_EQ(rank.trainer.ema(), nullptr);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  TinySetup wrong;
  wrong.trainer.ema_decay = 1;
  EXPECT_EQ(RunTiny(wrong, [](TinyRank&) { return absl::OkStatus(); }).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zeroth::testing
