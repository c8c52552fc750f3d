// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/outlier_detector.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

double OutlierDetector::LargestZScore() { return std::sqrt(static_cast<double>(kWindow - 1)); }

OutlierDetector::State OutlierDetector::state() const {
  return {taken_,
          std::vector<double>(window_.begin(), window_.begin() + std::min(taken_, kWindow))};
}

absl::Status OutlierDetector::Restore(const State& state) {
  const bool fits = state.taken >= 0 &&
                    static_cast<int64_t>(state.window.size()) == std::min(state.taken, kWindow);
  const auto is_finite = [](double value) { return std::isfinite(value); };
  if (!fits || !std::all_of(state.window.begin(), state.window.end(), is_finite)) {
    return InvalidArgument("outlier detector: a restored window of ", state.window.size(),
                           " values, after ", state.taken, "; expected the last ", kWindow,
                           " of them at most, all finite");
  }
  taken_ = state.taken;
  window_.fill(0);
  std::copy(state.window.begin(), state.window.end(), window_.begin());
  return absl::OkStatus();
}

std::optional<double> OutlierDetector::Add(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  window_[static_cast<size_t>(taken_ % kWindow)] = value;
  ++taken_;
  if (taken_ < kWindow) return std::nullopt;
  // Computed from the window every time: running sums would accumulate the rounding of all steps.
  const auto n = static_cast<double>(kWindow);
  const double mean = std::accumulate(window_.begin(), window_.end(), 0.0) / n;
  double squares = 0;
  for (const double other : window_) squares += (other - mean) * (other - mean);
  const double deviation = std::sqrt(squares / n);
  return deviation > 0 ? (value - mean) / deviation : 0.0;
}

}  // namespace zeroth
