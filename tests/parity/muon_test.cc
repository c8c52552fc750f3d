// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares Muon, under every strategy and world size, with reference runs in float64, and the runs
// with each other bit for bit.

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/strategies/shard_layout.h"
#include "zeroth/tests/parity/comparison.h"
#include "zeroth/tests/parity/reference_run.h"

namespace zeroth {
namespace {

// The reference's makers give these for matmuls in fp32.
constexpr double kMuonNormTolerance = 1e-4;
constexpr double kMuonWeightTolerance = 1e-3;

// Every strategy, and full_shard by rows.
std::vector<RunSetup> MuonSetups(const std::string& model, int world_size) {
  std::vector<RunSetup> setups = SetupsFor(model, world_size);
  for (const char* strategy : {"full_shard", "no_shard"}) {
    RunSetup rows = setups.front();
    rows.strategy = strategy;
    rows.layout = LayoutKind::kRows;
    setups.push_back(rows);
  }
  for (RunSetup& setup : setups) setup.optimizer = "muon";
  return setups;
}

class MuonParityTest : public OnTestDevice,
                       public testing::WithParamInterface<std::tuple<const char*, int>> {};

TEST_P(MuonParityTest, MeetsTheReference) {
  const auto [model, world_size] = GetParam();
  const absl::StatusOr<TrainingRecord> reference = LoadReference(model, "muon");
  ASSERT_TRUE(reference.ok()) << reference.status();
  const TrainingRecord& record = Record(MuonSetups(model, world_size).front());
  ASSERT_FALSE(record.losses.empty());
  for (size_t step = 0; step < record.losses.size(); ++step) {
    EXPECT_LE(Relative(record.losses[step], reference->losses[step]), kLossTolerance)
        << "loss of step " << step;
    EXPECT_LE(Relative(record.grad_norms[step], reference->grad_norms[step]), kMuonNormTolerance)
        << "gradient norm of step " << step;
  }
  if (RunsAreShort()) return;
  ASSERT_EQ(record.losses.size(), reference->losses.size());
  ExpectFinalWeightsClose(model, record.final_weights, reference->final_weights,
                          kMuonWeightTolerance);
}

TEST_P(MuonParityTest, StrategiesGiveTheSameBits) {
  const auto [model, world_size] = GetParam();
  const std::vector<RunSetup> setups = MuonSetups(model, world_size);
  const TrainingRecord& first = Record(setups.front());
  for (size_t i = 1; i < setups.size(); ++i) {
    SCOPED_TRACE(setups[i].ToString());
    ExpectSameBits(first, Record(setups[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MuonParityTest,
                         testing::Combine(testing::Values("gpt2_tiny", "llama_tiny"),
                                          testing::ValuesIn(WorldSizes())),
                         [](const auto& instance) {
                           return absl::StrCat(std::get<0>(instance.param), "_world",
                                               std::get<1>(instance.param));
                         });

RunSetup Plain() {
  RunSetup setup;
  setup.model = "gpt2_tiny";
  setup.strategy = "full_shard";
  setup.device = TestDevice();
  setup.optimizer = "muon";
  setup.world_size = 2;
  setup.steps = RunsAreShort() ? 1 : 4;
  return setup;
}

using MuonSettingsTest = OnTestDevice;

// The choice of units changes neither which matrices Muon updates nor their bits.
TEST_F(MuonSettingsTest, UnitsAndSchedulesChangeNothing) {
  const TrainingRecord& plain = Record(Plain());
  RunSetup one_unit = Plain();
  one_unit.min_wrap_numel = 1 << 30;
  RunSetup recomputed = Plain();
  recomputed.activation_checkpointing = ActivationCheckpointing::kBlock;
  for (const RunSetup& variant : {one_unit, recomputed}) {
    SCOPED_TRACE(variant.ToString());
    ExpectSameBits(plain, Record(variant));
  }
}

// Once per step, from the sum over all micro-batches, however they accumulate.
TEST_F(MuonSettingsTest, MicroBatchesTrainAsOneBatch) {
  const absl::StatusOr<TrainingRecord> reference = LoadReference("gpt2_tiny", "muon");
  ASSERT_TRUE(reference.ok()) << reference.status();
  for (const char* strategy : {"no_shard", "shard_optimizer", "full_shard"}) {
    for (const bool sync_every : {true, false}) {
      RunSetup setup = Plain();
      setup.strategy = strategy;
      setup.micro_batches = RunsAreShort() ? 1 : 2;
      setup.sync_every_micro_batch = sync_every;
      SCOPED_TRACE(setup.ToString());
      const TrainingRecord& record = Record(setup);
      ASSERT_FALSE(record.losses.empty());
      for (size_t step = 0; step < record.losses.size(); ++step) {
        EXPECT_LE(Relative(record.losses[step], reference->losses[step]), kLossTolerance) << step;
      }
    }
  }
}

// With a deterministic batch the number of ranks does not change results either.
TEST_F(MuonSettingsTest, WorldSizesGiveTheSameBits) {
  RunSetup one = Plain();
  one.deterministic_batch = 8;
  one.bits_of_any_team = true;
  one.world_size = 1;
  const TrainingRecord& expected = Record(one);
  for (const int world_size : WorldSizes()) {
    for (const char* strategy : {"no_shard", "full_shard", "hybrid_shard"}) {
      for (const LayoutKind layout : {LayoutKind::kFlat, LayoutKind::kRows}) {
        RunSetup setup = one;
        setup.world_size = world_size;
        setup.strategy = strategy;
        setup.layout = layout;
        if (setup.strategy == "hybrid_shard") {
          if (world_size < 4) continue;
          setup.shard_size = world_size / 2;
        }
        SCOPED_TRACE(setup.ToString());
        ExpectSameBits(expected, Record(setup));
      }
    }
  }
}

// Matrices divided among tensor ranks are gathered from these, and updated by one of them.
TEST_F(MuonSettingsTest, TensorRanksMeetTheReference) {
  for (const char* model : {"gpt2_tiny", "llama_tiny"}) {
    const absl::StatusOr<TrainingRecord> reference = LoadReference(model, "muon");
    ASSERT_TRUE(reference.ok()) << reference.status();
    std::vector<RunSetup> setups = SetupsFor(model, 2);
    for (RunSetup& setup : setups) {
      setup.optimizer = "muon";
      setup.world_size = 4;
      setup.tensor.size = 2;
      SCOPED_TRACE(setup.ToString());
      const TrainingRecord& record = Record(setup);
      ASSERT_FALSE(record.losses.empty());
      for (size_t step = 0; step < record.losses.size(); ++step) {
        EXPECT_LE(Relative(record.losses[step], reference->losses[step]), kLossTolerance) << step;
      }
      ExpectSameBits(Record(setups.front()), record);
      if (RunsAreShort()) continue;
      ASSERT_EQ(record.losses.size(), reference->losses.size());
      ExpectFinalWeightsClose(model, record.final_weights, reference->final_weights,
                              kMuonWeightTolerance);
    }
  }
}

TEST_F(MuonSettingsTest, FixedPiecesGiveTheSameBitsAtAnyNumberOfTensorRanks) {
  RunSetup one = Plain();
  one.strategy = "no_shard";
  one.world_size = 1;
  one.deterministic_batch = 4;
  one.tensor.deterministic = 4;
  one.bits_of_any_team = true;
  const TrainingRecord& expected = Record(one);
  for (const int size : {1, 2, 4}) {
    for (const RunSetup& data : SetupsFor("gpt2_tiny", 8 / size)) {
      if (data.shard_size > 2) continue;
      RunSetup setup = one;
      setup.strategy = data.strategy;
      setup.shard_size = data.shard_size;
      setup.shard_optimizer_over_world = data.shard_optimizer_over_world;
      setup.world_size = std::min(8, 4 * size);
      if (data.shard_size > setup.world_size / size) continue;
      setup.tensor.size = size;
      SCOPED_TRACE(setup.ToString());
      ExpectSameBits(expected, Record(setup));
      setup.layout = LayoutKind::kRows;
      ExpectSameBits(expected, Record(setup));
    }
  }
}

// bf16 parameters and gradients, with fp32 masters: close, and the same under every strategy.
TEST_F(MuonSettingsTest, MixedPrecisionStaysNear) {
  const absl::StatusOr<TrainingRecord> reference = LoadReference("gpt2_tiny", "muon");
  ASSERT_TRUE(reference.ok()) << reference.status();
  RunSetup setup = Plain();
  setup.precision.param_dtype = DType::kBFloat16;
  setup.precision.reduce_dtype = DType::kBFloat16;
  const TrainingRecord& record = Record(setup);
  ASSERT_FALSE(record.losses.empty());
  for (size_t step = 0; step < record.losses.size(); ++step) {
    EXPECT_LE(Relative(record.losses[step], reference->losses[step]), 0.003) << step;
  }
  setup.strategy = "no_shard";
  ExpectSameBits(record, Record(setup));
}

}  // namespace
}  // namespace zeroth
