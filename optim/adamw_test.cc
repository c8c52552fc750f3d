// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/adamw.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/optim/clip_grad_norm.h"
#include "zeroth/optim/testing/ranks.h"

namespace zeroth {
namespace {

using testing::AllLayouts;
using testing::Layout;
using testing::Rank;
using testing::Trained;
using testing::TrainRanks;

std::vector<float> Draw(const char* name, int64_t count, float scale = 1.0f) {
  std::vector<float> values(static_cast<size_t>(count));
  CounterRng(3, name).FillNormal(0, scale, absl::MakeSpan(values));
  return values;
}

// Returns p = [1, 2, 3, 4] after three known gradients.
std::vector<float> KnownCase(EpsMode eps_mode) {
  std::vector<float> values;
  const absl::Status status = RunLocalRanks(1, [&](Communicator& world) -> absl::Status {
    Rank rank(world, Shape({2, 2}), Shape({0}));
    ZEROTH_RETURN_IF_ERROR(rank.Open({}));
    ZEROTH_RETURN_IF_ERROR(rank.Load({1, 2, 3, 4}, {}));
    AdamWOptions options;
    options.beta2 = 0.999;
    options.eps_mode = eps_mode;
    ZEROTH_ASSIGN_OR_RETURN(auto adamw, AdamW::Create(*rank.sharding, *rank.kernels, options));
    const std::vector<std::vector<float>> gradients = {
        {.1f, .2f, -.3f, 0}, {.05f, -.2f, .3f, 0}, {.1f, .2f, .3f, 1e-8f}};
    for (const std::vector<float>& gradient : gradients) {
      ZEROTH_RETURN_IF_ERROR(rank.Backward(gradient, {}));
      ZEROTH_RETURN_IF_ERROR(adamw->Step(0.1));
      ZEROTH_RETURN_IF_ERROR(rank.sharding->scheduler().EndStep());
    }
    std::vector<float> empty;
    return rank.Read(values, empty);
  });
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

TEST(AdamWTest, KnownValuesAfterThreeSteps) {
  const std::vector<float> values = KnownCase(EpsMode::kAfterCorrection);
  const std::vector<double> expected = {0.683707178, 1.81421924, 2.96347499, 3.8578066};
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-6) << i;
  EXPECT_NEAR(KnownCase(EpsMode::kBeforeCorrection)[3], 3.87923789, 1e-6);
}

// Returns the whole parameters after five steps.
Trained Train(const Layout& layout) {
  return TrainRanks(layout, Shape({7, 5}), Shape({11}), [](Rank& rank) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(rank.Load(Draw("m", 35), Draw("v", 11)));
    ZEROTH_ASSIGN_OR_RETURN(auto adamw,
                            AdamW::Create(*rank.sharding, *rank.kernels, AdamWOptions()));
    for (int step = 0; step < 5; ++step) {
      const std::string name = std::to_string(step);
      ZEROTH_RETURN_IF_ERROR(
          rank.Backward(Draw(("gm" + name).c_str(), 35), Draw(("gv" + name).c_str(), 11)));
      ZEROTH_RETURN_IF_ERROR(adamw->Step(0.01, 0.5));
      ZEROTH_RETURN_IF_ERROR(rank.sharding->scheduler().EndStep());
    }
    return absl::OkStatus();
  });
}

// Each rank feeds the same gradient, whose mean over ranks is itself wherever 1/n is exact.
TEST(AdamWTest, TheSameBitsHoweverItIsSharded) {
  const Trained whole = Train({"no_shard", 1, 0, 0});
  for (const Layout& layout : AllLayouts()) {
    if (layout.world_size == 3) continue;
    SCOPED_TRACE(layout.strategy + " at " + std::to_string(layout.world_size));
    const Trained other = Train(layout);
    EXPECT_EQ(whole.matrix, other.matrix);
    EXPECT_EQ(whole.vector, other.vector);
  }
}

TEST(AdamWTest, FollowsTheFormulaInFloat64) {
  const Trained trained = Train({"full_shard", 3, 0, 0});
  const auto reference = [](std::vector<float> start, const char* prefix, double decay) {
    std::vector<double> p(start.begin(), start.end()), m(p.size()), v(p.size());
    for (int step = 0; step < 5; ++step) {
      const std::vector<float> g =
          Draw((prefix + std::to_string(step)).c_str(), static_cast<int64_t>(p.size()));
      for (size_t i = 0; i < p.size(); ++i) {
        const double scaled = 0.5 * static_cast<double>(g[i]);
        m[i] = 0.9 * m[i] + 0.1 * scaled;
        v[i] = 0.95 * v[i] + 0.05 * scaled * scaled;
        const double update = m[i] / (1 - std::pow(0.9, step + 1)) /
                              (std::sqrt(v[i] / (1 - std::pow(0.95, step + 1))) + 1e-8);
        p[i] -= 0.01 * (update + decay * p[i]);
      }
    }
    return p;
  };
  const std::vector<double> matrix = reference(Draw("m", 35), "gm", 0.1);
  const std::vector<double> vector = reference(Draw("v", 11), "gv", 0.0);  // does not decay
  for (size_t i = 0; i < matrix.size(); ++i) EXPECT_NEAR(trained.matrix[i], matrix[i], 2e-6) << i;
  for (size_t i = 0; i < vector.size(); ++i) EXPECT_NEAR(trained.vector[i], vector[i], 2e-6) << i;
}

TEST(AdamWTest, MomentsAreSharded) {
  const auto bytes = [](const char* strategy, int world_size) {
    int64_t result = 0;
    const absl::Status status = RunLocalRanks(world_size, [&](Communicator& world) -> absl::Status {
      Rank rank(world, Shape({64, 128}), Shape({0}));
      ZEROTH_RETURN_IF_ERROR(rank.Open({strategy, world_size, 0, 0}));
      const int64_t before =
          rank.device->allocator().stats()[MemoryCategory::kOptimizer].current_bytes;
      ZEROTH_ASSIGN_OR_RETURN(auto adamw,
                              AdamW::Create(*rank.sharding, *rank.kernels, AdamWOptions()));
      const int64_t after =
          rank.device->allocator().stats()[MemoryCategory::kOptimizer].current_bytes;
      EXPECT_EQ(after - before, adamw->MemoryBytes());
      if (world.rank() == 0) result = adamw->MemoryBytes();
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return result;
  };
  EXPECT_EQ(bytes("no_shard", 8), 2 * 4 * 64 * 128);
  EXPECT_EQ(bytes("full_shard", 8) * 8, bytes("no_shard", 8));
}

TEST(AdamWTest, ZeroGradientWithDecayShrinksAndFrozenStays) {
  const absl::Status status = RunLocalRanks(2, [](Communicator& world) -> absl::Status {
    Rank rank(world, Shape({3, 3}), Shape({5}));
    ZEROTH_RETURN_IF_ERROR(rank.Open({"full_shard", 2, 0, 0}));
    rank.vector.set_requires_grad(false);
    rank.vector.set_decay(true);
    ZEROTH_RETURN_IF_ERROR(rank.Load(std::vector<float>(9, 2.0f), std::vector<float>(5, 2.0f)));
    ZEROTH_ASSIGN_OR_RETURN(auto adamw,
                            AdamW::Create(*rank.sharding, *rank.kernels, AdamWOptions()));
    Scheduler& scheduler = rank.sharding->scheduler();
    Unit& unit = *rank.sharding->FindUnit("unit");
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(unit));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(unit));
    ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());  // no gradient was written: zeros
    ZEROTH_RETURN_IF_ERROR(adamw->Step(0.5));
    ZEROTH_RETURN_IF_ERROR(scheduler.EndStep());
    std::vector<float> matrix, vector;
    ZEROTH_RETURN_IF_ERROR(rank.Read(matrix, vector));
    for (const float value : matrix) EXPECT_FLOAT_EQ(value, 2.0f * (1 - 0.5f * 0.1f));
    EXPECT_EQ(vector, std::vector<float>(5, 2.0f));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(AdamWTest, SolvesAQuadratic) {
  const absl::Status status = RunLocalRanks(2, [](Communicator& world) -> absl::Status {
    Rank rank(world, Shape({0, 1}), Shape({16}));
    ZEROTH_RETURN_IF_ERROR(rank.Open({"full_shard", 2, 0, 0}));
    std::vector<float> values = Draw("start", 16), empty;
    ZEROTH_RETURN_IF_ERROR(rank.Load({}, values));
    ZEROTH_ASSIGN_OR_RETURN(auto adamw,
                            AdamW::Create(*rank.sharding, *rank.kernels, AdamWOptions()));
    const auto loss = [&] {
      double sum = 0;
      for (const float value : values) sum += static_cast<double>(value) * value;
      return sum;
    };
    const double first = loss();
    for (int step = 0; step < 200; ++step) {
      ZEROTH_RETURN_IF_ERROR(rank.Backward({}, values));  // half the gradient of the sum of squares
      ZEROTH_RETURN_IF_ERROR(adamw->Step(0.1));
      ZEROTH_RETURN_IF_ERROR(rank.sharding->scheduler().EndStep());
      ZEROTH_RETURN_IF_ERROR(rank.Read(empty, values));
    }
    EXPECT_LT(loss(), 0.01 * first);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(AdamWTest, AStepWithoutReducedGradientsNamesTheUnitAndChangesNothing) {
  const absl::Status status = RunLocalRanks(1, [](Communicator& world) -> absl::Status {
    Rank rank(world, Shape({2, 2}), Shape({2}));
    ZEROTH_RETURN_IF_ERROR(rank.Open({}));
    ZEROTH_ASSIGN_OR_RETURN(auto adamw,
                            AdamW::Create(*rank.sharding, *rank.kernels, AdamWOptions()));
    const absl::Status step = adamw->Step(0.1);
    EXPECT_EQ(step.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(step.ToString().find("unit 'unit'"), std::string::npos) << step;
    EXPECT_NE(step.ToString().find("FinishBackward"), std::string::npos) << step;
    EXPECT_EQ(adamw->step(), 0);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// The host may count all units as reduced by then, while reductions are still running.
TEST(AdamWTest, AStepBeforeFinishBackwardChangesNothing) {
  const absl::Status status = RunLocalRanks(2, [](Communicator& world) -> absl::Status {
    Rank rank(world, Shape({2, 2}), Shape({2}));
    ZEROTH_RETURN_IF_ERROR(rank.Open({"full_shard", 2}));
    ZEROTH_ASSIGN_OR_RETURN(auto adamw,
                            AdamW::Create(*rank.sharding, *rank.kernels, AdamWOptions()));
    Scheduler& scheduler = rank.sharding->scheduler();
    Unit& unit = *rank.sharding->FindUnit("unit");
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(unit));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(unit));
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(unit));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(unit));
    EXPECT_EQ(unit.gradient_state(), GradientState::kReduced);
    for (const absl::Status& early :
         {adamw->Step(0.1), GradNormAndScale(*rank.sharding, *rank.kernels, 1, 1).status()}) {
      EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_NE(early.ToString().find("FinishBackward"), std::string::npos) << early;
    }
    EXPECT_EQ(adamw->step(), 0);
    ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
    ZEROTH_RETURN_IF_ERROR(adamw->Step(0.1));
    return scheduler.EndStep();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(AdamWTest, OptionsOutOfRangeAreRefused) {
  const absl::Status status = RunLocalRanks(1, [](Communicator& world) -> absl::Status {
    Rank rank(world, Shape({2, 2}), Shape({2}));
    ZEROTH_RETURN_IF_ERROR(rank.Open({}));
    const auto refused = [&](const AdamWOptions& options) {
      return AdamW::Create(*rank.sharding, *rank.kernels, options).status().code() ==
             absl::StatusCode::kInvalidArgument;
    };
    AdamWOptions options;
    options.beta1 = 1.0;
    EXPECT_TRUE(refused(options));
    options = {};
    options.beta2 = -0.1;
    EXPECT_TRUE(refused(options));
    options = {};
    options.eps = NAN;
    EXPECT_TRUE(refused(options));
    options = {};
    options.weight_decay = INFINITY;
    EXPECT_TRUE(refused(options));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace zeroth
