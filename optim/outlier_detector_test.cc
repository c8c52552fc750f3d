// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/outlier_detector.h"

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

constexpr size_t kWindow = 128;

// Computed by the other formula, E[x^2] - E[x]^2, of the last values up to index `at`.
double Reference(const std::vector<double>& values, size_t at) {
  long double sum = 0;
  long double squares = 0;
  for (size_t i = at + 1 - kWindow; i <= at; ++i) {
    sum += values[i];
    squares += static_cast<long double>(values[i]) * values[i];
  }
  const long double mean = sum / kWindow;
  return static_cast<double>((values[at] - mean) / std::sqrt(squares / kWindow - mean * mean));
}

TEST(OutlierDetectorTest, IsTheZScoreOfTheWindowThatEndsWithTheValue) {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(3 + std::sin(i * i) + (i == 700 ? 40 : 0));
  OutlierDetector detector;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::optional<double> score = detector.Add(values[i]);
    ASSERT_EQ(score.has_value(), i + 1 >= kWindow) << i;
    if (!score.has_value()) continue;
    EXPECT_NEAR(*score, Reference(values, i), 1e-9) << i;
    EXPECT_EQ(*score > 11, i == 700) << i;
  }
}

TEST(OutlierDetectorTest, NonFiniteValuesStayOutOfTheWindow) {
  OutlierDetector with;
  OutlierDetector without;
  for (int i = 0; i < 300; ++i) {
    const double value = std::cos(i * i);
    for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
      EXPECT_EQ(with.Add(bad), std::nullopt);
    }
    EXPECT_EQ(with.Add(value), without.Add(value)) << i;
  }
}

TEST(OutlierDetectorTest, EqualValuesAreNotOutliers) {
  OutlierDetector detector;
  std::optional<double> score;
  for (size_t i = 0; i < kWindow; ++i) score = detector.Add(0.1);
  ASSERT_TRUE(score.has_value());
  EXPECT_LT(std::abs(*score), 2);  // 0, or what the rounding of a mean leaves
  for (size_t i = 0; i < kWindow; ++i) score = detector.Add(4.0);
  EXPECT_EQ(score, 0.0);
}

TEST(OutlierDetectorTest, TheLargestScoreIsThatOfOneAmongEquals) {
  OutlierDetector detector;
  for (size_t i = 0; i < kWindow; ++i) detector.Add(1.0);
  EXPECT_NEAR(*detector.Add(1e9), OutlierDetector::LargestZScore(), 1e-6);
  EXPECT_NEAR(OutlierDetector::LargestZScore(), std::sqrt(127.0), 1e-12);
}

TEST(OutlierDetectorTest, ARestoredOneGivesTheSameBits) {
  const auto value = [](int i) { return 1 / (1.0 + std::sin(i * i) / 3); };
  for (const int before : {0, 5, 127, 128, 200, 300}) {
    OutlierDetector one;
    for (int i = 0; i < before; ++i) one.Add(value(i));
    OutlierDetector other;
    other.Add(-7);
    ASSERT_TRUE(other.Restore(one.state()).ok()) << before;
    for (int i = before; i < before + 300; ++i) EXPECT_EQ(other.Add(value(i)), one.Add(value(i)));
  }
  OutlierDetector detector;
  for (const OutlierDetector::State& bad :
       {OutlierDetector::State{-1, {}}, OutlierDetector::State{2, {1}},
        OutlierDetector::State{129, std::vector<double>(129)},
        OutlierDetector::State{1, {std::nan("")}}}) {
    EXPECT_FALSE(detector.Restore(bad).ok()) << bad.taken;
  }
}

}  // namespace
}  // namespace zeroth
