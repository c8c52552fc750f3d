// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares training, under every strategy and world size, with reference runs in float64, and the
// runs with each other bit for bit.

#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/tests/parity/comparison.h"
#include "zeroth/tests/parity/reference_run.h"

namespace zeroth {
namespace {

// Other devices add in other orders; their tolerance is ten times as large.
double Slack() { return TestDevice() == "cpu" ? 1.0 : 10.0; }

std::vector<RunSetup> AllSetups(const std::vector<const char*>& models) {
  std::vector<RunSetup> setups;
  for (const char* model : models) {
    for (const int world_size : WorldSizes()) {
      for (const RunSetup& setup : SetupsFor(model, world_size)) setups.push_back(setup);
    }
  }
  return setups;
}

// Shows that a family computes the same as its reference; strategies do not depend on the family.
// The setups come in pairs of one model and world size: the first run does not shard, the second
// does.
std::vector<RunSetup> FewSetups() {
  std::vector<RunSetup> setups;
  const auto add_pair = [&setups](const char* model, int world_size) {
    for (const char* strategy : {"no_shard", "full_shard"}) {
      RunSetup setup = SetupsFor(model, world_size).front();
      setup.strategy = strategy;
      setups.push_back(setup);
    }
  };
  for (const char* model : Families()) add_pair(model, 2);
  // The same family as gemma3_tiny, from the files of a model of text and images.
  for (const int world_size : {1, 2, 4}) add_pair("gemma3_vision_tiny", world_size);
  return setups;
}

using SettingsTest = OnTestDevice;
using OddWorldTest = OnTestDevice;
class ParityTest : public OnTestDevice, public testing::WithParamInterface<RunSetup> {};

TEST_P(ParityTest, MeetsTheReference) {
  const absl::StatusOr<TrainingRecord> reference = LoadReference(GetParam().model);
  ASSERT_TRUE(reference.ok()) << reference.status();
  const TrainingRecord& record = Record(GetParam());
  if (!RunsAreShort()) {
    ASSERT_EQ(record.losses.size(), reference->losses.size());
  }
  ASSERT_FALSE(record.losses.empty());
  for (size_t step = 0; step < record.losses.size(); ++step) {
    const double tolerance = Slack() * (step == 0 ? kFirstLossTolerance : kLossTolerance);
    EXPECT_LE(Relative(record.losses[step], reference->losses[step]), tolerance)
        << "loss of step " << step;
    // The first norm is as accurate as its gradients.
    EXPECT_LE(Relative(record.grad_norms[step], reference->grad_norms[step]),
              Slack() * (step == 0 ? kGradientTolerance : kLaterNormTolerance))
        << "gradient norm of step " << step;
  }
  ExpectClose(record.first_gradients, reference->first_gradients, Slack() * kGradientTolerance,
              "gradient");
  if (RunsAreShort()) return;
  ExpectFinalWeightsClose(GetParam().model, record.final_weights, reference->final_weights,
                          Slack() * kWeightTolerance);
}

std::string SetupName(const testing::TestParamInfo<RunSetup>& instance) {
  return instance.param.ToString();
}
INSTANTIATE_TEST_SUITE_P(Strategies, ParityTest,
                         testing::ValuesIn(AllSetups({"gpt2_tiny", "llama_tiny"})), SetupName);
INSTANTIATE_TEST_SUITE_P(Families, ParityTest, testing::ValuesIn(FewSetups()), SetupName);
INSTANTIATE_TEST_SUITE_P(NightlyFamilies, ParityTest, testing::ValuesIn(AllSetups(Families())),
                         SetupName);

class EqualityTest : public OnTestDevice,
                     public testing::WithParamInterface<std::tuple<const char*, int>> {};

TEST_P(EqualityTest, StrategiesGiveTheSameBits) {
  const auto [model, world_size] = GetParam();
  const std::vector<RunSetup> setups = SetupsFor(model, world_size);
  const TrainingRecord& first = Record(setups.front());
  for (size_t i = 1; i < setups.size(); ++i) {
    SCOPED_TRACE(setups[i].ToString());
    ExpectSameBits(first, Record(setups[i]));
  }
}

std::string WorldName(const testing::TestParamInfo<EqualityTest::ParamType>& instance) {
  return absl::StrCat(std::get<0>(instance.param), "_world", std::get<1>(instance.param));
}
INSTANTIATE_TEST_SUITE_P(WorldSizes, EqualityTest,
                         testing::Combine(testing::Values("gpt2_tiny", "llama_tiny"),
                                          testing::ValuesIn(WorldSizes())),
                         WorldName);
INSTANTIATE_TEST_SUITE_P(NightlyFamilies, EqualityTest,
                         testing::Combine(testing::ValuesIn(Families()),
                                          testing::ValuesIn(WorldSizes())),
                         WorldName);

using FamilyTest = OnTestDevice;

TEST_F(FamilyTest, StrategiesGiveTheSameBits) {
  const std::vector<RunSetup> setups = FewSetups();
  ASSERT_EQ(setups.size() % 2, 0u);
  for (size_t i = 0; i < setups.size(); i += 2) {
    SCOPED_TRACE(setups[i].ToString());
    ExpectSameBits(Record(setups[i]), Record(setups[i + 1]));
  }
}

// Neither prefetching, nor the choice of units, nor that of replicated parameters may change a bit.
TEST_F(SettingsTest, ScheduleAndWrappingChangeNothing) {
  RunSetup setup;
  setup.model = "llama_tiny";
  setup.strategy = "full_shard";
  setup.device = TestDevice();
  setup.world_size = RunsAreShort() ? 2 : 4;
  setup.steps = RunsAreShort() ? 1 : 6;
  const absl::StatusOr<TrainingRecord> plain = Train(setup);
  ASSERT_TRUE(plain.ok()) << plain.status();
  RunSetup no_prefetch = setup;
  no_prefetch.prefetch = false;
  RunSetup small_units = setup;
  small_units.min_wrap_numel = 3000;
  RunSetup whole_norms = setup;
  whole_norms.min_shard_numel = 100;
  RunSetup kept = setup;
  kept.reshard_after_forward = false;
  for (const RunSetup& variant : {no_prefetch, small_units, whole_norms, kept}) {
    const absl::StatusOr<TrainingRecord> other = Train(variant);
    ASSERT_TRUE(other.ok()) << other.status();
    ExpectSameBits(*plain, *other);
  }
}

// Recomputed activations have the same bits as kept ones: under every strategy, in both types, for
// blocks that are units and for units inside of blocks, with micro-batches.
TEST_F(SettingsTest, ActivationCheckpointingChangesNothing) {
  MixedPrecision bf16;
  bf16.param_dtype = DType::kBFloat16;
  for (const char* model : {"gpt2_tiny", "llama_tiny", "qwen3_5_tiny"}) {
    for (const MixedPrecision& precision : {MixedPrecision(), bf16}) {
      RunSetup plain;
      plain.model = model;
      plain.strategy = "no_shard";
      plain.device = TestDevice();
      plain.precision = precision;
      plain.world_size = 2;
      plain.micro_batches = RunsAreShort() ? 1 : 2;
      plain.sync_every_micro_batch = false;
      plain.steps = RunsAreShort() ? 1 : 4;
      for (const auto what : {ActivationCheckpointing::kBlock, ActivationCheckpointing::kSelective,
                              ActivationCheckpointing::kAttention, ActivationCheckpointing::kMlp,
                              ActivationCheckpointing::kElementwise}) {
        for (const char* strategy : {"no_shard", "shard_grad_op", "full_shard"}) {
          RunSetup setup = plain;
          setup.strategy = strategy;
          setup.activation_checkpointing = what;
          // gpt2_tiny's tied weights must stay in one unit.
          const bool small_units = plain.model == "llama_tiny" && setup.strategy != "no_shard";
          setup.min_wrap_numel = small_units ? 3000 : 0;
          SCOPED_TRACE(setup.ToString());
          ExpectSameBits(Record(plain), Record(setup));
        }
      }
    }
  }
}

// World sizes that are not powers of two, where groups and the flat reduction add in different
// orders.
TEST_F(OddWorldTest, StrategiesAgreeAtThreeFiveAndSixRanks) {
  for (const int world_size : RunsAreShort() ? std::vector<int>{3} : std::vector<int>{3, 5, 6}) {
    std::vector<RunSetup> setups;
    for (const char* strategy : {"no_shard", "shard_grad_op", "full_shard", "hybrid_shard"}) {
      RunSetup setup;
      setup.model = "gpt2_tiny";
      setup.strategy = strategy;
      setup.device = TestDevice();
      setup.world_size = world_size;
      setup.shard_size = std::string(strategy) != "hybrid_shard" ? 0
                         : world_size == 6                       ? 2
                                                                 : world_size;
      setup.rows_per_rank = 1;
      setup.steps = RunsAreShort() ? 1 : 8;
      setups.push_back(setup);
    }
    const TrainingRecord& first = Record(setups.front());
    ASSERT_EQ(first.losses.size(), static_cast<size_t>(setups.front().steps));
    for (size_t i = 1; i < setups.size(); ++i) {
      SCOPED_TRACE(setups[i].ToString());
      const TrainingRecord& other = Record(setups[i]);
      for (size_t step = 0; step < first.losses.size(); ++step) {
        EXPECT_LE(Relative(other.losses[step], first.losses[step]), Slack() * kLossTolerance)
            << step;
      }
      ExpectClose(other.first_gradients, first.first_gradients, Slack() * kGradientTolerance,
                  "gradient");
      ExpectFinalWeightsClose(setups[i].model, other.final_weights, first.final_weights,
                              Slack() * kWeightTolerance);
    }
  }
}

}  // namespace
}  // namespace zeroth
