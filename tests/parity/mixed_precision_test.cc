// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Training in bf16: close to the reference in float64, and the same bits whatever is sharded.

#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/tests/parity/comparison.h"
#include "zeroth/tests/parity/reference_run.h"

namespace zeroth {
namespace {

constexpr double kLossTolerance = 0.01;
// Eight bits of mantissa in every activation and weight: about 0.4 % each, which average out.
constexpr double kGradientTolerance = 0.04;

const MixedPrecision kReducedInFloat = {DType::kBFloat16, DType::kFloat32};
const MixedPrecision kReducedInBFloat16 = {DType::kBFloat16, DType::kBFloat16};

using Case = std::tuple<const char*, int>;  // model, world size

std::string CaseName(const testing::TestParamInfo<Case>& instance) {
  return absl::StrCat(std::get<0>(instance.param), "_world", std::get<1>(instance.param));
}

class MixedPrecisionTest : public testing::TestWithParam<Case> {
 protected:
  std::vector<RunSetup> Setups(const MixedPrecision& precision) const {
    const auto [model, world_size] = GetParam();
    return SetupsFor(model, world_size, precision);
  }

  void ExpectNearReference(const TrainingRecord& record) const {
    const absl::StatusOr<TrainingRecord> reference = LoadReference(std::get<0>(GetParam()));
    ASSERT_TRUE(reference.ok()) << reference.status();
    if (!RunsAreShort()) {
      ASSERT_EQ(record.losses.size(), reference->losses.size());
    }
    ASSERT_FALSE(record.losses.empty());
    for (size_t step = 0; step < record.losses.size(); ++step) {
      EXPECT_LE(Relative(record.losses[step], reference->losses[step]), kLossTolerance)
          << "loss of step " << step;
      EXPECT_LE(Relative(record.grad_norms[step], reference->grad_norms[step]), kGradientTolerance)
          << "gradient norm of step " << step;
    }
  }
};

TEST_P(MixedPrecisionTest, EveryStrategyStaysNearTheReference) {
  for (const MixedPrecision& precision : {kReducedInFloat, kReducedInBFloat16}) {
    for (const RunSetup& setup : Setups(precision)) {
      SCOPED_TRACE(setup.ToString());
      ExpectNearReference(Record(setup));
    }
  }
}

TEST_P(MixedPrecisionTest, StrategiesGiveTheSameBits) {
  for (const MixedPrecision& precision : {kReducedInFloat, kReducedInBFloat16}) {
    const std::vector<RunSetup> setups = Setups(precision);
    const TrainingRecord& first = Record(setups.front());
    for (size_t i = 1; i < setups.size(); ++i) {
      SCOPED_TRACE(setups[i].ToString());
      ExpectSameBits(first, Record(setups[i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MixedPrecisionTest,
                         testing::Combine(testing::Values("gpt2_tiny", "llama_tiny"),
                                          testing::ValuesIn(WorldSizes())),
                         CaseName);

// A run in bf16 that had the bits of one in float32 would have rounded nothing.
TEST(MixedPrecisionSettingsTest, BFloat16IsNotFloat) {
  RunSetup setup;
  setup.model = "gpt2_tiny";
  setup.strategy = "full_shard";
  setup.device = TestDevice();
  setup.world_size = 2;
  if (RunsAreShort()) setup.steps = 1;
  RunSetup low = setup;
  low.precision = kReducedInFloat;
  EXPECT_NE(Record(setup).losses, Record(low).losses);
  RunSetup lower = setup;
  lower.precision = kReducedInBFloat16;
  EXPECT_NE(Record(low).grad_norms, Record(lower).grad_norms);
}

}  // namespace
}  // namespace zeroth
