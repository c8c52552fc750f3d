// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/loss_scaler.h"

#include <limits>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

using testing::HasSubstr;

LossScaler Make(const LossScalerOptions& options) {
  absl::StatusOr<LossScaler> scaler = LossScaler::Create(options);
  EXPECT_TRUE(scaler.ok()) << scaler.status();
  return *std::move(scaler);
}

TEST(LossScalerTest, AnOverflowHalvesAndQuietStepsDouble) {
  LossScalerOptions options;
  options.initial_scale = 1024;
  options.growth_interval = 3;
  LossScaler scaler = Make(options);
  EXPECT_TRUE(scaler.Update(false));
  EXPECT_EQ(scaler.scale(), 512);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(scaler.Update(true));
    EXPECT_EQ(scaler.scale(), 512);
  }
  // Only consecutive steps count.
  EXPECT_TRUE(scaler.Update(false));
  EXPECT_EQ(scaler.scale(), 256);
  for (const double expected : {256.0, 256.0, 512.0, 512.0, 512.0, 1024.0}) {
    EXPECT_TRUE(scaler.Update(true));
    EXPECT_EQ(scaler.scale(), expected);
  }
}

TEST(LossScalerTest, StaysWithinItsBounds) {
  LossScalerOptions options;
  options.initial_scale = 2;
  options.min_scale = 1;
  options.max_scale = 4;
  options.growth_interval = 1;
  LossScaler scaler = Make(options);
  for (const double expected : {4.0, 4.0, 4.0}) {
    EXPECT_TRUE(scaler.Update(true));
    EXPECT_EQ(scaler.scale(), expected);
  }
  EXPECT_TRUE(scaler.Update(false));
  EXPECT_TRUE(scaler.Update(false));
  EXPECT_EQ(scaler.scale(), 1);
  // Gradients that overflow unscaled are not the scale's fault.
  EXPECT_FALSE(scaler.Update(false));
  EXPECT_EQ(scaler.scale(), 1);
}

TEST(LossScalerTest, AStaticScaleNeverMoves) {
  LossScalerOptions options;
  options.initial_scale = 128;
  options.dynamic = false;
  options.growth_interval = 1;
  LossScaler scaler = Make(options);
  EXPECT_TRUE(scaler.Update(true));
  EXPECT_FALSE(scaler.Update(false));
  EXPECT_EQ(scaler.scale(), 128);
}

TEST(LossScalerTest, ResumesFromAState) {
  LossScalerOptions options;
  options.growth_interval = 4;
  LossScaler whole = Make(options);
  LossScaler first = Make(options);
  const bool finite[] = {true, false, true, true, true, true, true, true, true, false};
  for (int i = 0; i < 10; ++i) {
    whole.Update(finite[i]);
    if (i < 6) first.Update(finite[i]);
  }
  LossScaler second = Make(options);
  ASSERT_TRUE(second.Restore(first.state()).ok());
  for (int i = 6; i < 10; ++i) second.Update(finite[i]);
  EXPECT_EQ(second.scale(), whole.scale());
  EXPECT_EQ(second.state().finite_steps, whole.state().finite_steps);
  EXPECT_TRUE(absl::IsInvalidArgument(second.Restore({3.0, 0})));
  EXPECT_TRUE(absl::IsInvalidArgument(second.Restore({4.0, -1})));
  // States that no scaler with these options reaches.
  for (const double scale : {options.min_scale / 2, options.max_scale * 2}) {
    EXPECT_TRUE(absl::IsInvalidArgument(second.Restore({scale, 0}))) << scale;
  }
  EXPECT_EQ(second.scale(), whole.scale());
  options.dynamic = false;
  LossScaler constant = Make(options);
  EXPECT_TRUE(absl::IsInvalidArgument(constant.Restore({2 * options.initial_scale, 0})));
  EXPECT_TRUE(constant.Restore({options.initial_scale, 0}).ok());
}

TEST(LossScalerTest, RefusesWhatWouldRound) {
  LossScalerOptions options;
  for (const double scale : {0.0, -2.0, 1000.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    options.initial_scale = scale;
    const absl::Status status = LossScaler::Create(options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << scale;
    EXPECT_THAT(std::string(status.message()), HasSubstr("power of two"));
  }
  options.initial_scale = 0.5;
  EXPECT_THAT(std::string(LossScaler::Create(options).status().message()), HasSubstr("min_scale"));
  options = LossScalerOptions();
  options.growth_interval = 0;
  EXPECT_THAT(std::string(LossScaler::Create(options).status().message()),
              HasSubstr("growth_interval is 0"));
}

}  // namespace
}  // namespace zeroth
