// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/lr_schedule.h"

#include <cmath>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

LrSchedule Make(LrScheduleKind kind) {
  LrScheduleOptions options;
  options.lr = 1.0;
  options.min_lr = 0.1;
  options.warmup_steps = 10;
  options.total_steps = 110;
  const absl::StatusOr<LrSchedule> schedule = LrSchedule::Create(kind, options);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *schedule;
}

TEST(LrScheduleTest, AllWarmUpAlike) {
  for (const LrScheduleKind kind :
       {LrScheduleKind::kConstant, LrScheduleKind::kLinear, LrScheduleKind::kCosine}) {
    const LrSchedule schedule = Make(kind);
    EXPECT_DOUBLE_EQ(schedule.At(0), 0.1);
    EXPECT_DOUBLE_EQ(schedule.At(9), 1.0);
    EXPECT_DOUBLE_EQ(schedule.At(10), 1.0);
  }
}

TEST(LrScheduleTest, ShapesAfterTheWarmUp) {
  EXPECT_DOUBLE_EQ(Make(LrScheduleKind::kConstant).At(1000), 1.0);
  EXPECT_DOUBLE_EQ(Make(LrScheduleKind::kLinear).At(60), 0.55);
  EXPECT_DOUBLE_EQ(Make(LrScheduleKind::kLinear).At(110), 0.1);
  EXPECT_NEAR(Make(LrScheduleKind::kCosine).At(60), 0.55, 1e-15);
  EXPECT_NEAR(Make(LrScheduleKind::kCosine).At(35), 0.1 + 0.45 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_DOUBLE_EQ(Make(LrScheduleKind::kCosine).At(500), 0.1);
}

// A tenth reads as the tenth of the digits that were given.
TEST(LrScheduleTest, TakesTenthsInDecimal) {
  EXPECT_EQ(DecimalTenth(3e-3), 3e-4);
  EXPECT_NE(3e-3 / 10, 3e-4);
  EXPECT_EQ(DecimalTenth(3e-4), 3e-5);
  EXPECT_EQ(DecimalTenth(6e-4), 6e-5);
  EXPECT_EQ(DecimalTenth(1.25), 0.125);
  EXPECT_EQ(DecimalTenth(0), 0);
  EXPECT_EQ(DecimalTenth(1e300), 1e299);
  EXPECT_EQ(DecimalTenth(std::numeric_limits<double>::max()), 1.7976931348623157e307);
  EXPECT_EQ(DecimalTenth(2.2250738585072014e-308), 2.2250738585072014e-309);
  EXPECT_EQ(DecimalTenth(std::numeric_limits<double>::denorm_min()), 0);
}

TEST(LrScheduleTest, RefusesOptionsOutOfRange) {
  LrScheduleOptions options;
  options.lr = -1;
  EXPECT_FALSE(LrSchedule::Create(LrScheduleKind::kConstant, options).ok());
  options.lr = NAN;
  EXPECT_FALSE(LrSchedule::Create(LrScheduleKind::kConstant, options).ok());
  options.lr = 1;
  options.warmup_steps = -1;
  EXPECT_FALSE(LrSchedule::Create(LrScheduleKind::kConstant, options).ok());
}

}  // namespace
}  // namespace zeroth
