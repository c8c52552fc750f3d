// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/api/zeroth.h"
#include "zeroth/core/base/philox.h"

namespace {

using namespace zeroth;  // NOLINT: a program's own .cc

using Values = std::map<std::string, std::vector<float>>;  // by parameter

constexpr int kSteps = 8;
constexpr int kSkipped = 3;  // its gradient has a NaN

OptimizerOptions Options() {
  OptimizerOptions options;
  options.lr = 0.01;
  options.beta2 = 0.99;
  return options;
}

// The same on all ranks, so that the mean over 1, 2 or 4 ranks has the same bits.
std::vector<float> GradientOf(const Parameter& parameter, int step) {
  std::vector<float> values(static_cast<size_t>(parameter.global_numel()));
  CounterRng(7, absl::StrCat(parameter.name(), step)).FillNormal(0, 1.0f, absl::MakeSpan(values));
  if (step == kSkipped) values[0] = std::numeric_limits<float>::quiet_NaN();
  return values;
}

struct Layout {
  std::string strategy;
  int world_size;
  int shard_size = 0;
};

// Trains from step `begin` to `end`. Before that loads a checkpoint unless `begin` is 0; then saves
// one in `directory`.
Values Train(const Layout& layout, int begin, int end, const std::string& directory) {
  Values result;
  std::mutex mutex;
  RunOptions run;
  run.launch.world_size = layout.world_size;
  const absl::Status status = RunRanks(run, [&](Rank& rank) -> absl::Status {
    Parameter matrix("matrix", Shape({37, 11}), Initializer::Normal(0.1f));
    Parameter bias("bias", Shape({13}));  // has no weight decay
    ShardingOptions options;
    options.strategy = layout.strategy;
    options.strategy_options.shard_size = layout.shard_size;
    ZEROTH_ASSIGN_OR_RETURN(auto sharded, FullyShard(rank, {{"unit", {&matrix, &bias}}}, options));
    ZEROTH_ASSIGN_OR_RETURN(
        auto optimizer,
        OptimizerRegistry::Create("lion", sharded->sharding(), sharded->kernels(), Options()));
    if (begin > 0) ZEROTH_RETURN_IF_ERROR(sharded->Load(directory, optimizer.get()));
    for (int i = begin; i < end; ++i) {
      TrainingStep step(*sharded);
      ZEROTH_ASSIGN_OR_RETURN(UnitPass forward, step.Forward("unit"));
      ZEROTH_RETURN_IF_ERROR(forward.End());
      ZEROTH_ASSIGN_OR_RETURN(UnitPass backward, step.Backward("unit"));
      for (Parameter* parameter : {&matrix, &bias}) {
        ZEROTH_ASSIGN_OR_RETURN(const Tensor gradient, backward.Gradient(*parameter));
        const std::vector<float> values = GradientOf(*parameter, i);
        std::copy(values.begin(), values.end(), gradient.data<float>());
      }
      ZEROTH_RETURN_IF_ERROR(backward.End());
      ZEROTH_RETURN_IF_ERROR(step.FinishBackward());
      ZEROTH_RETURN_IF_ERROR(step.Update(*optimizer));
      EXPECT_EQ(step.skipped(), i == kSkipped);
    }
    ZEROTH_RETURN_IF_ERROR(sharded->Save(directory, optimizer.get()));
    return sharded->sharding().VisitFull(
        [&](const Parameter& parameter, int64_t, absl::Span<const float> values) {
          const std::lock_guard<std::mutex> lock(mutex);
          result[parameter.name()].assign(values.begin(), values.end());
          return absl::OkStatus();
        });
  });
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

std::string Directory(const std::string& name) { return absl::StrCat(testing::TempDir(), name); }

// Compares with the same steps as a loop in double precision.
void ExpectNear(const Parameter& parameter, const Values& initial, const Values& trained) {
  const OptimizerOptions options = Options();
  const std::vector<float>& first = initial.at(parameter.name());
  std::vector<double> w(first.begin(), first.end());
  std::vector<double> m(w.size());
  for (int step = 0; step < kSteps; ++step) {
    if (step == kSkipped) continue;
    const std::vector<float> gradient = GradientOf(parameter, step);
    for (size_t i = 0; i < w.size(); ++i) {
      const double g = gradient[i];
      const double c = options.beta1 * m[i] + (1 - options.beta1) * g;
      const double decay = parameter.decay() ? options.weight_decay : 0;
      w[i] -= options.lr * ((c > 0 ? 1 : c < 0 ? -1 : 0) + decay * w[i]);
      m[i] = options.beta2 * m[i] + (1 - options.beta2) * g;
    }
  }
  for (size_t i = 0; i < w.size(); ++i) {
    ASSERT_NEAR(trained.at(parameter.name())[i], w[i], 1e-6) << parameter.name() << "[" << i << "]";
  }
}

TEST(LionTest, EqualsLoopsInDoublePrecisionInEveryLayout) {
  const Values initial = Train({"no_shard", 1}, 0, 0, Directory("initial"));
  const Values whole = Train({"no_shard", 1}, 0, kSteps, Directory("whole"));
  ASSERT_EQ(whole.size(), 2u);
  ExpectNear(Parameter("matrix", Shape({37, 11})), initial, whole);
  ExpectNear(Parameter("bias", Shape({13})), initial, whole);
  const std::vector<Layout> layouts = {{"full_shard", 2},
                                       {"full_shard", 4},
                                       {"shard_grad_op", 2},
                                       {"shard_optimizer", 4},
                                       {"hybrid_shard", 4, 2}};
  for (const Layout& layout : layouts) {
    const std::string name = absl::StrCat(layout.strategy, layout.world_size);
    EXPECT_EQ(Train(layout, 0, kSteps, Directory(name)), whole) << name;
  }
}

TEST(LionTest, ResumesFromACheckpointOfAnotherLayout) {
  const std::string directory = Directory("resumed");
  const Values whole = Train({"no_shard", 1}, 0, kSteps, Directory("uninterrupted"));
  const Values half = Train({"full_shard", 4}, 0, kSteps / 2, directory);
  EXPECT_NE(half, whole);
  EXPECT_EQ(Train({"shard_grad_op", 2}, kSteps / 2, kSteps, directory), whole);
}

TEST(LionTest, RefusesMomentsInFewBits) {
  RunOptions run;
  run.launch.world_size = 1;
  const absl::Status status = RunRanks(run, [](Rank& rank) -> absl::Status {
    Parameter matrix("matrix", Shape({4, 4}));
    ZEROTH_ASSIGN_OR_RETURN(auto sharded, FullyShard(rank, {{"unit", {&matrix}}}, {}));
    OptimizerOptions options;
    options.state_dtype = DType::kBFloat16;
    return OptimizerRegistry::Create("lion", sharded->sharding(), sharded->kernels(), options)
        .status();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
}

}  // namespace
