// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/lr_schedule.h"

#include <cmath>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

LrSchedule Make(const char* name) {
  LrScheduleOptions options;
  options.lr = 1.0;
  options.min_lr = 0.1;
  options.warmup_steps = 10;
  options.total_steps = 110;
  const absl::StatusOr<LrSchedule> schedule = LrSchedule::Create(name, options);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *schedule;
}

TEST(LrScheduleTest, AllWarmUpAlike) {
  for (const std::string& name : LrSchedule::Names()) {
    const LrSchedule schedule = Make(name.c_str());
    EXPECT_DOUBLE_EQ(schedule.At(0), 0.1);
    EXPECT_DOUBLE_EQ(schedule.At(9), 1.0);
    EXPECT_DOUBLE_EQ(schedule.At(10), 1.0);
  }
}

TEST(LrScheduleTest, ShapesAfterTheWarmUp) {
  EXPECT_DOUBLE_EQ(Make("constant").At(1000), 1.0);
  EXPECT_DOUBLE_EQ(Make("linear").At(60), 0.55);
  EXPECT_DOUBLE_EQ(Make("linear").At(110), 0.1);
  EXPECT_NEAR(Make("cosine").At(60), 0.55, 1e-15);
  EXPECT_NEAR(Make("cosine").At(35), 0.1 + 0.45 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_DOUBLE_EQ(Make("cosine").At(500), 0.1);
  // The last tenth of 110 steps.
  EXPECT_EQ(Make("wsd").At(50), 1.0);
  EXPECT_EQ(Make("wsd").At(99), 1.0);
  EXPECT_DOUBLE_EQ(Make("wsd").At(101), 0.1 + 0.9 * 9 / 11);
  EXPECT_DOUBLE_EQ(Make("wsd").At(110), 0.1);
  EXPECT_DOUBLE_EQ(Make("wsd").At(500), 0.1);
}

const LrScheduleRegistration kStaircase("staircase",
                                        [](int64_t step, const LrScheduleOptions& options) {
                                          return step < 60 ? options.lr : options.min_lr;
                                        });

TEST(LrScheduleTest, OthersCanBeRegistered) {
  EXPECT_EQ(Make("staircase").At(59), 1.0);
  EXPECT_EQ(Make("staircase").At(60), 0.1);
  EXPECT_EQ(Make("staircase").At(4), 0.5) << "the warm-up";
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

TEST(LrScheduleTest, RefusesWhatItDoesNotKnow) {
  const absl::Status unknown = LrSchedule::Create("step", LrScheduleOptions()).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.ToString().find("constant, cosine, linear, staircase, wsd"), std::string::npos)
      << unknown;
  LrScheduleOptions options;
  options.lr = -1;
  EXPECT_FALSE(LrSchedule::Create("constant", options).ok());
  options.lr = NAN;
  EXPECT_FALSE(LrSchedule::Create("constant", options).ok());
  options.lr = 1;
  options.warmup_steps = -1;
  EXPECT_FALSE(LrSchedule::Create("constant", options).ok());
  options.warmup_steps = 0;
  options.decay_ratio = 0;
  EXPECT_FALSE(LrSchedule::Create("wsd", options).ok());
}

}  // namespace
}  // namespace zeroth
