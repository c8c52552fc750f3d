// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Measured peaks of gpt2_124m against the formula of docs/architecture.md. With P parameters, R of
// them in the root unit, L in a block, and S ranks in a shard group, bytes per rank in float32 are
//
//   parameters  4 P / S
//   gathered    0 if S = 1; 4 P under shard_grad_op; otherwise 4 (R + 2 L): the root and two
//   blocks, never more gradients   4 P / S, and 4 (R + 2 L) if S > 1: full gradients on their way
//   to their owners optimizer   8 P / S
//
// With parameters computed in bf16, gathered ones are 2 bytes each, also if S = 1 (2 P); with
// gradients reduced in bf16, those are 2 bytes each.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/nn/presets.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/train/trainer.h"

namespace zeroth {
namespace {

struct Sizes {
  double total = 0;
  double root = 0;
  double block = 0;
};

// Counted from the parameters' names and shapes, not from the units that the code under test makes.
absl::StatusOr<Sizes> CountParameters() {
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config, PresetConfig("gpt2_124m"));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model,
                          ModelRegistry::Create(config));
  Sizes sizes;
  for (const Parameter* parameter : model->Parameters()) {
    const double numel = static_cast<double>(parameter->numel());
    sizes.total += numel;
    if (absl::StrContains(parameter->name(), ".h.0.")) sizes.block += numel;
    if (!absl::StrContains(parameter->name(), ".h.")) sizes.root += numel;
  }
  return sizes;
}

struct Expected {
  double parameters, gathered, gradients, optimizer;
};

Expected Formula(const Sizes& sizes, const std::string& strategy, int shards,
                 const MixedPrecision& precision) {
  const double in_flight = sizes.root + 2 * sizes.block;
  const double parameter = static_cast<double>(SizeOf(precision.param_dtype));
  const double gradient = static_cast<double>(SizeOf(precision.reduce_dtype));
  Expected expected;
  expected.parameters = 4 * sizes.total / shards;
  const bool keeps_all = shards == 1 || strategy == "shard_grad_op";
  expected.gathered = parameter * (keeps_all ? sizes.total : in_flight);
  if (shards == 1 && precision.computes_in_masters()) expected.gathered = 0;
  expected.gradients = gradient * (sizes.total / shards + (shards == 1 ? 0 : in_flight));
  expected.optimizer = 8 * sizes.total / shards;
  return expected;
}

struct Case {
  std::string strategy;
  int world_size;
  int shard_size;  // of hybrid_shard
  MixedPrecision precision = {};
};

absl::Status TrainRank(const Case& test_case, Communicator& world, std::mutex& mutex,
                       std::vector<MemoryStats>& measured) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config, PresetConfig("gpt2_124m"));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, ModelRegistry::Create(config));
  TrainerOptions options;
  options.sharding.strategy = test_case.strategy;
  options.sharding.strategy_options.shard_size = test_case.shard_size;
  options.sharding.mixed_precision = test_case.precision;
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, *device, std::move(model), options));
  device->allocator().ResetPeaks();
  Batch batch;
  batch.batch = 1;
  batch.seq = 2;
  batch.inputs = {11, 17 + world.rank()};
  batch.targets = {17 + world.rank(), 5};
  // The second step knows the order of units and prefetches.
  for (int step = 0; step < 2; ++step) ZEROTH_RETURN_IF_ERROR(trainer->Step(batch, 1e-4).status());
  const MemoryStats stats = device->allocator().stats();
  std::lock_guard<std::mutex> lock(mutex);
  measured.push_back(stats);
  return absl::OkStatus();
}

class MemoryFormulaTest : public testing::TestWithParam<Case> {};

TEST_P(MemoryFormulaTest, PeaksAreTheFormula) {
  const Case& test_case = GetParam();
  const absl::StatusOr<Sizes> sizes = CountParameters();
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  ASSERT_EQ(sizes->total, 124439808);
  std::mutex mutex;
  std::vector<MemoryStats> measured;
  const absl::Status status = RunLocalRanks(test_case.world_size, [&](Communicator& world) {
    return TrainRank(test_case, world, mutex, measured);
  });
  ASSERT_TRUE(status.ok()) << status;
  const int shards = test_case.strategy == "no_shard" ? 1
                     : test_case.shard_size > 0       ? test_case.shard_size
                                                      : test_case.world_size;
  const Expected expected = Formula(*sizes, test_case.strategy, shards, test_case.precision);
  const double gradient = static_cast<double>(SizeOf(test_case.precision.reduce_dtype));
  ASSERT_EQ(measured.size(), static_cast<size_t>(test_case.world_size));
  for (const MemoryStats& rank : measured) {
    const auto peak = [&](MemoryCategory category) {
      return static_cast<double>(rank[category].peak_bytes);
    };
    constexpr double kTolerance = 0.02;
    EXPECT_NEAR(peak(MemoryCategory::kParameters), expected.parameters,
                kTolerance * expected.parameters);
    EXPECT_NEAR(peak(MemoryCategory::kGatheredParameters), expected.gathered,
                kTolerance * expected.gathered);
    EXPECT_NEAR(peak(MemoryCategory::kGradients), expected.gradients,
                kTolerance * expected.gradients);
    EXPECT_NEAR(peak(MemoryCategory::kOptimizer), expected.optimizer,
                kTolerance * expected.optimizer);
    // Between steps nothing full is left.
    EXPECT_EQ(rank[MemoryCategory::kGatheredParameters].current_bytes, 0);
    EXPECT_NEAR(static_cast<double>(rank[MemoryCategory::kGradients].current_bytes),
                gradient * sizes->total / shards, kTolerance * gradient * sizes->total / shards);
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const int world_size : {2, 4, 8}) {
    for (const char* strategy : {"no_shard", "shard_grad_op", "full_shard"})
      cases.push_back({strategy, world_size, 0});
    cases.push_back({"hybrid_shard", world_size, world_size / 2});
  }
  for (const DType reduce_dtype : {DType::kFloat32, DType::kBFloat16}) {
    const MixedPrecision bf16 = {DType::kBFloat16, reduce_dtype};
    for (const char* strategy : {"no_shard", "shard_grad_op", "full_shard"}) {
      cases.push_back({strategy, 2, 0, bf16});
    }
    cases.push_back({"hybrid_shard", 4, 2, bf16});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Gpt2_124m, MemoryFormulaTest, testing::ValuesIn(Cases()),
                         [](const auto& instance) {
                           const Case& test_case = instance.param;
                           return absl::StrCat(test_case.strategy, "_world", test_case.world_size,
                                               "_", DTypeName(test_case.precision.param_dtype), "_",
                                               DTypeName(test_case.precision.reduce_dtype));
                         });

}  // namespace
}  // namespace zeroth
