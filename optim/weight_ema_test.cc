// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/weight_ema.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/optim/adamw.h"
#include "zeroth/optim/testing/ranks.h"

namespace zeroth {
namespace {

using testing::AllLayouts;
using testing::Layout;
using testing::Rank;

constexpr double kDecay = 0.7;
const Shape kMatrix({7, 9});
const Shape kVector({5});

std::vector<float> Draw(const Shape& shape, const std::string& name) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  CounterRng(5, name).FillNormal(0, 1, absl::MakeSpan(values));
  return values;
}

// average += (1 - decay) * (weights - average), in float, operation by operation.
void Follow(std::vector<float>& average, const std::vector<float>& weights) {
  for (size_t i = 0; i < average.size(); ++i) {
    const float difference = weights[i] - average[i];
    const float part = static_cast<float>(1 - kDecay) * difference;
    average[i] += part;
  }
}

struct Whole {
  std::vector<float> matrix;
  std::vector<float> vector;
  bool operator==(const Whole&) const = default;
};

absl::StatusOr<Whole> Read(Rank& rank) {
  Whole whole;
  ZEROTH_RETURN_IF_ERROR(rank.Read(whole.matrix, whole.vector));
  ZEROTH_RETURN_IF_ERROR(rank.sharding->scheduler().EndStep());
  return whole;
}

absl::Status Step(Rank& rank, AdamW& adamw, int step) {
  ZEROTH_RETURN_IF_ERROR(rank.Backward(Draw(kMatrix, absl::StrCat("matrix gradient ", step)),
                                       Draw(kVector, absl::StrCat("vector gradient ", step))));
  ZEROTH_RETURN_IF_ERROR(adamw.Step(/*lr=*/0.1));
  return rank.sharding->scheduler().EndStep();
}

absl::Status FollowsTheWeights(Communicator& world, const Layout& layout) {
  Rank rank(world, kMatrix, kVector);
  ZEROTH_RETURN_IF_ERROR(rank.Open(layout));
  ZEROTH_RETURN_IF_ERROR(rank.Load(Draw(kMatrix, "matrix"), Draw(kVector, "vector")));
  ZEROTH_ASSIGN_OR_RETURN(const auto adamw,
                          AdamW::Create(*rank.sharding, *rank.kernels, AdamWOptions()));
  ZEROTH_ASSIGN_OR_RETURN(const auto ema, WeightEma::Create(*rank.sharding, *rank.kernels, kDecay));
  Whole average;
  Whole weights;
  for (int step = 0; step < 6; ++step) {
    ZEROTH_RETURN_IF_ERROR(Step(rank, *adamw, step));
    ZEROTH_RETURN_IF_ERROR(ema->Update());
    ZEROTH_ASSIGN_OR_RETURN(weights, Read(rank));
    if (step == 0) average = weights;
    Follow(average.matrix, weights.matrix);
    Follow(average.vector, weights.vector);
    // Swapping now and then changes nothing.
    if (step % 2 == 1) continue;
    ZEROTH_RETURN_IF_ERROR(ema->Swap());
    EXPECT_TRUE(ema->swapped());
    ZEROTH_ASSIGN_OR_RETURN(const Whole seen, Read(rank));
    EXPECT_TRUE(seen == average) << layout.strategy << " x " << layout.world_size;
    EXPECT_EQ(ema->Update().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ema->states().status().code(), absl::StatusCode::kFailedPrecondition);
    ZEROTH_RETURN_IF_ERROR(ema->Swap());
    ZEROTH_ASSIGN_OR_RETURN(const Whole back, Read(rank));
    EXPECT_TRUE(back == weights) << layout.strategy << " x " << layout.world_size;
  }
  EXPECT_EQ(ema->updates(), 6);
  EXPECT_FALSE(average == weights);
  return absl::OkStatus();
}

TEST(WeightEmaTest, FollowsTheWeightsToTheLastBitUnderEveryLayout) {
  for (const Layout& layout : AllLayouts()) {
    const absl::Status status = RunLocalRanks(
        layout.world_size, [&](Communicator& world) { return FollowsTheWeights(world, layout); });
    EXPECT_TRUE(status.ok()) << status;
  }
}

// Returns the matrix as a forward without a backward sees it, with no EndStep after it.
absl::StatusOr<std::vector<float>> Inferred(Rank& rank) {
  Scheduler& scheduler = rank.sharding->scheduler();
  Unit& unit = *rank.sharding->FindUnit("unit");
  ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(unit, /*expects_backward=*/false));
  ZEROTH_ASSIGN_OR_RETURN(std::vector<float> seen, rank.matrix.data().ToHost<float>());
  ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(unit, /*expects_backward=*/false));
  return seen;
}

absl::Status ChangesWhatInferenceSees(Communicator& world, const Layout& layout) {
  Rank rank(world, kMatrix, kVector);
  ZEROTH_RETURN_IF_ERROR(rank.Open(layout));
  ZEROTH_RETURN_IF_ERROR(rank.Load(Draw(kMatrix, "matrix"), Draw(kVector, "vector")));
  ZEROTH_ASSIGN_OR_RETURN(const auto adamw,
                          AdamW::Create(*rank.sharding, *rank.kernels, AdamWOptions()));
  ZEROTH_ASSIGN_OR_RETURN(const auto ema, WeightEma::Create(*rank.sharding, *rank.kernels, kDecay));
  Whole first;
  for (const int step : {0, 1}) {
    ZEROTH_RETURN_IF_ERROR(Step(rank, *adamw, step));
    ZEROTH_RETURN_IF_ERROR(ema->Update());
    if (step > 0) continue;
    ZEROTH_ASSIGN_OR_RETURN(first, Read(rank));
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> weights, Inferred(rank));
  std::vector<float> average = first.matrix;
  Follow(average, weights);
  for (const std::vector<float>& expected : {average, weights}) {
    ZEROTH_RETURN_IF_ERROR(ema->Swap());
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> seen, Inferred(rank));
    EXPECT_EQ(seen, expected) << layout.strategy << " x " << layout.world_size << " in groups of "
                              << layout.shard_size;
  }
  return rank.sharding->scheduler().EndStep();
}

TEST(WeightEmaTest, InferenceSeesTheAverageWhateverItHadGatheredBefore) {
  for (const Layout& layout : AllLayouts()) {
    const absl::Status status = RunLocalRanks(layout.world_size, [&](Communicator& world) {
      return ChangesWhatInferenceSees(world, layout);
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(WeightEmaTest, TakesTheMemoryOfOneShardAndNoneForFrozenWeights) {
  for (const bool frozen : {false, true}) {
    const absl::Status status = RunLocalRanks(4, [&](Communicator& world) -> absl::Status {
      Rank rank(world, Shape({64, 32}), Shape({8}));
      rank.matrix.set_requires_grad(!frozen);
      ZEROTH_RETURN_IF_ERROR(rank.Open(Layout{"full_shard", 4, 0, 0}));
      const auto optimizer_bytes = [&] {
        return rank.device->allocator().stats()[MemoryCategory::kOptimizer].current_bytes;
      };
      const int64_t before = optimizer_bytes();
      ZEROTH_ASSIGN_OR_RETURN(const auto ema,
                              WeightEma::Create(*rank.sharding, *rank.kernels, kDecay));
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<ShardState> states, ema->states());
      int64_t bytes = 0;
      for (const ShardState& state : states) bytes += state.shard.bytes();
      const int64_t numel = (frozen ? 0 : 64 * 32) + 8;
      EXPECT_GE(bytes, 4 * numel / 4);
      EXPECT_LE(bytes, 4 * (numel / 4 + 64));
      EXPECT_GE(optimizer_bytes() - before, bytes);
      EXPECT_LE(optimizer_bytes() - before, bytes + 64);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(WeightEmaTest, WithoutUpdatesTheAverageIsTheWeights) {
  const absl::Status status = RunLocalRanks(2, [](Communicator& world) -> absl::Status {
    Rank rank(world, kMatrix, kVector);
    ZEROTH_RETURN_IF_ERROR(rank.Open(Layout{"full_shard", 2, 0, 0}));
    ZEROTH_RETURN_IF_ERROR(rank.Load(Draw(kMatrix, "matrix"), Draw(kVector, "vector")));
    ZEROTH_ASSIGN_OR_RETURN(const auto ema,
                            WeightEma::Create(*rank.sharding, *rank.kernels, kDecay));
    for (const bool swapped : {true, false}) {
      ZEROTH_RETURN_IF_ERROR(ema->Swap());
      EXPECT_EQ(ema->swapped(), swapped);
      ZEROTH_ASSIGN_OR_RETURN(const Whole seen, Read(rank));
      EXPECT_EQ(seen.matrix, Draw(kMatrix, "matrix"));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(WeightEmaTest, SwappingWithinAStepIsRefusedNamingTheUnit) {
  const absl::Status status = RunLocalRanks(2, [](Communicator& world) -> absl::Status {
    Rank rank(world, kMatrix, kVector);
    ZEROTH_RETURN_IF_ERROR(rank.Open(Layout{"full_shard", 2, 0, 0}));
    ZEROTH_RETURN_IF_ERROR(rank.Load(Draw(kMatrix, "matrix"), Draw(kVector, "vector")));
    ZEROTH_ASSIGN_OR_RETURN(const auto ema,
                            WeightEma::Create(*rank.sharding, *rank.kernels, kDecay));
    ZEROTH_RETURN_IF_ERROR(rank.Backward(Draw(kMatrix, "g"), Draw(kVector, "h")));
    const absl::Status refused = ema->Swap();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(refused.ToString().find("'unit'"), std::string::npos) << refused;
    EXPECT_FALSE(ema->swapped());
    return rank.sharding->scheduler().EndStep();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(WeightEmaTest, DecaysOutOfRange) {
  for (const double decay : {-0.1, 1.0, 2.0}) {
    EXPECT_EQ(ValidateEmaDecay(decay).code(), absl::StatusCode::kInvalidArgument) << decay;
  }
  EXPECT_TRUE(ValidateEmaDecay(0).ok());
  EXPECT_TRUE(ValidateEmaDecay(0.9999).ok());
}

}  // namespace
}  // namespace zeroth
