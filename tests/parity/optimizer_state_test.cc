// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Training with moments in bf16 and in 8 bits, and without fp32 masters, is close to the reference
// in float64, and has the same bits however state is sharded.

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/tests/parity/comparison.h"
#include "zeroth/tests/parity/reference_run.h"

namespace zeroth {
namespace {

struct State {
  const char* name;
  MixedPrecision precision;
  DType state_dtype;
  double loss_tolerance;  // relative, of every step
};

constexpr MixedPrecision kFloat = {};
constexpr MixedPrecision kMasters = {DType::kBFloat16, DType::kBFloat16};
constexpr MixedPrecision kNoMasters = {DType::kBFloat16, DType::kBFloat16, DType::kBFloat16};

// Tolerances are about four times the measured errors; that of fp32 state is 2e-5.
constexpr State kStates[] = {
    {"bf16_moments", kFloat, DType::kBFloat16, 0.00005},
    {"int8_moments", kFloat, DType::kUInt8, 0.0005},
    {"bf16_with_bf16_moments", kMasters, DType::kBFloat16, 0.001},
    {"bf16_with_int8_moments", kMasters, DType::kUInt8, 0.001},
    {"bf16_masters_and_moments", kNoMasters, DType::kBFloat16, 0.001},
    {"bf16_masters_and_int8_moments", kNoMasters, DType::kUInt8, 0.001},
};

using Case = std::tuple<const char*, int, State>;  // model, world size, state

std::string CaseName(const testing::TestParamInfo<Case>& instance) {
  const auto& [model, world_size, state] = instance.param;
  return absl::StrCat(model, "_world", world_size, "_", state.name);
}

class OptimizerStateTest : public OnTestDevice, public testing::WithParamInterface<Case> {
 protected:
  std::vector<RunSetup> Setups() const {
    const auto& [model, world_size, state] = GetParam();
    std::vector<RunSetup> setups = SetupsFor(model, world_size, state.precision);
    for (RunSetup& setup : setups) setup.state_dtype = state.state_dtype;
    return setups;
  }
};

TEST_P(OptimizerStateTest, StaysNearTheReference) {
  const auto& [model, world_size, state] = GetParam();
  const absl::StatusOr<TrainingRecord> reference = LoadReference(model);
  ASSERT_TRUE(reference.ok()) << reference.status();
  const TrainingRecord& record = Record(Setups().front());
  ASSERT_FALSE(record.losses.empty());
  if (!RunsAreShort()) {
    ASSERT_EQ(record.losses.size(), reference->losses.size());
  }
  double worst = 0;
  for (size_t step = 0; step < record.losses.size(); ++step) {
    const double off = Relative(record.losses[step], reference->losses[step]);
    EXPECT_LE(off, state.loss_tolerance) << "loss of step " << step;
    worst = std::max(worst, off);
  }
  RecordProperty("worst_loss_error", absl::StrCat(worst));
}

TEST_P(OptimizerStateTest, StrategiesGiveTheSameBits) {
  const std::vector<RunSetup> setups = Setups();
  const TrainingRecord& first = Record(setups.front());
  for (const RunSetup& setup : setups) {
    SCOPED_TRACE(setup.ToString());
    ExpectSameBits(first, Record(setup));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OptimizerStateTest,
                         testing::Combine(testing::Values("gpt2_tiny", "llama_tiny"),
                                          testing::ValuesIn(WorldSizes()),
                                          testing::ValuesIn(kStates)),
                         CaseName);

// If a run had the bits of fp32 state, nothing would have been rounded.
using OptimizerStateSettingsTest = OnTestDevice;
TEST_F(OptimizerStateSettingsTest, EachStateDtypeHasDifferentBits) {
  RunSetup setup;
  setup.model = "gpt2_tiny";
  setup.strategy = "full_shard";
  setup.device = TestDevice();
  setup.world_size = 2;
  setup.steps = 3;
  RunSetup bf16 = setup;
  bf16.state_dtype = DType::kBFloat16;
  RunSetup int8 = setup;
  int8.state_dtype = DType::kUInt8;
  EXPECT_NE(Record(setup).final_weights, Record(bf16).final_weights);
  EXPECT_NE(Record(setup).final_weights, Record(int8).final_weights);
  EXPECT_NE(Record(bf16).final_weights, Record(int8).final_weights);
}

}  // namespace
}  // namespace zeroth
