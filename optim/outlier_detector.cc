// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/outlier_detector.h"

#include <cmath>
#include <numeric>

namespace zeroth {

double OutlierDetector::LargestZScore() { return std::sqrt(static_cast<double>(kWindow - 1)); }

std::optional<double> OutlierDetector::Add(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  window_[static_cast<size_t>(taken_ % kWindow)] = value;
  ++taken_;
  if (taken_ < kWindow) return std::nullopt;
  // From the window itself every time: running sums would carry the rounding of all steps along.
  const auto n = static_cast<double>(kWindow);
  const double mean = std::accumulate(window_.begin(), window_.end(), 0.0) / n;
  double squares = 0;
  for (const double other : window_) squares += (other - mean) * (other - mean);
  const double deviation = std::sqrt(squares / n);
  return deviation > 0 ? (value - mean) / deviation : 0.0;
}

}  // namespace zeroth
