// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/straggler_detector.h"

#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

TEST(StragglerDetectorTest, RanksThatWaitAlikeAreInTime) {
  StragglerDetector ranks(3);
  for (int step = 1; step <= 9; ++step) ranks.Add(step, {0.3, 0.3, 0.3}, 1);
  EXPECT_FALSE(ranks.now().has_value());
  EXPECT_FALSE(ranks.worst().has_value());
}

TEST(StragglerDetectorTest, TheOneThatWaitsLeastIsLateSinceItDoes) {
  StragglerDetector ranks(3);
  for (int step = 1; step <= 4; ++step) ranks.Add(step, {0.1, 0.1, 0.1}, 1);
  // The others wait 0.4 s longer than rank 2, then 0.6 s, once not at all, and then again.
  ranks.Add(5, {0.5, 0.5, 0.1}, 1.4);
  ranks.Add(6, {0.7, 0.7, 0.1}, 1.6);
  ranks.Add(7, {0.1, 0.1, 0.1}, 1);
  ranks.Add(8, {0.3, 0.3, 0.1}, 1.2);
  const std::optional<Straggler> late = ranks.now();
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->rank, 2);
  EXPECT_EQ(late->since, 5);
  EXPECT_EQ(late->until, 8);
  EXPECT_NEAR(late->seconds, 0.2, 1e-12);
  EXPECT_NEAR(late->mean_seconds, 0.3, 1e-12);
  EXPECT_NEAR(late->worst_seconds, 0.6, 1e-12);
  ASSERT_TRUE(ranks.worst().has_value());
  EXPECT_EQ(ranks.worst()->since, 5);
  EXPECT_EQ(StragglerText(*late),
            "rank 2 from step 5 to 8: the others waited 300.0 ms a step for it, and 600.0 ms at "
            "most");
}

TEST(StragglerDetectorTest, APeriodThatIsOverIsRemembered) {
  StragglerDetector ranks(2);
  for (int step = 1; step <= 3; ++step) ranks.Add(step, {0.0, 2.0}, 10);
  for (int step = 4; step <= 60; ++step) ranks.Add(step, {1.0, 1.0}, 1);
  ranks.Add(61, {3.0, 0.0}, 10);
  ASSERT_TRUE(ranks.now().has_value());
  EXPECT_EQ(ranks.now()->rank, 1);
  EXPECT_EQ(ranks.now()->since, 61);
  ASSERT_TRUE(ranks.worst().has_value());
  EXPECT_EQ(ranks.worst()->rank, 0);
  EXPECT_EQ(ranks.worst()->since, 1);
  EXPECT_EQ(ranks.worst()->until, 3);
  EXPECT_NEAR(ranks.worst()->mean_seconds, 2.0, 1e-12);
}

// A total delay below a second is not reported, even if it is most of a short run.
TEST(StragglerDetectorTest, APeriodCountsFromASecondOn) {
  StragglerDetector ranks(2);
  for (int step = 1; step <= 10; ++step) ranks.Add(step, {0.0, 0.05}, 0.06);
  EXPECT_TRUE(ranks.now().has_value());
  EXPECT_FALSE(ranks.worst().has_value());
  for (int step = 11; step <= 30; ++step) ranks.Add(step, {0.0, 0.05}, 0.06);
  EXPECT_TRUE(ranks.worst().has_value());
}

TEST(StragglerDetectorTest, AlternatingStragglersAreNotReported) {
  StragglerDetector ranks(2);
  for (int step = 1; step <= 100; ++step) {
    ranks.Add(step, step % 2 == 0 ? std::vector<double>{0, 0.1} : std::vector<double>{0.1, 0}, 1);
  }
  EXPECT_FALSE(ranks.worst().has_value());
}

// One early step does not end a period, and its delay is not negative.
TEST(StragglerDetectorTest, AnEarlyStepOfAPeriodIsNotLate) {
  StragglerDetector ranks(2);
  ranks.Add(1, {0.0, 0.9}, 1);
  ranks.Add(2, {0.2, 0.0}, 1);
  ASSERT_TRUE(ranks.now().has_value());
  EXPECT_EQ(ranks.now()->rank, 0);
  EXPECT_EQ(ranks.now()->seconds, 0);
  EXPECT_NEAR(ranks.now()->mean_seconds, (0.9 - 0.2) / 2, 1e-12);
}

TEST(StragglerDetectorTest, NobodyWaitsForARankAlone) {
  StragglerDetector ranks(1);
  ranks.Add(1, {0.5}, 1);
  EXPECT_FALSE(ranks.now().has_value());
  EXPECT_FALSE(ranks.worst().has_value());
}

}  // namespace
}  // namespace zeroth
