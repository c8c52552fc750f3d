// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"

namespace zeroth {

// Measures how far a loss, or a gradient norm, is from those of earlier steps. llm.c (Karpathy et
// al., 2024) skips updates by this measure, since an extraordinary batch spoils weights and moments
// for many steps. Equal values give equal results, so ranks that see the same values agree without
// communication. A value type.
class OutlierDetector {
 public:
  static constexpr int64_t kWindow = 128;
  // The largest z-score of a value within a window that contains it: sqrt(n - 1).
  static double LargestZScore();

  // Adds `value` to the window, replacing the oldest if it is full, and returns its z-score there:
  // (value - mean) / the population's standard deviation (divided by n), or 0 if all values are
  // equal. std::nullopt until the window is full. A value that is not finite is not added, and has
  // no score.
  std::optional<double> Add(double value);

  // The state that a checkpoint keeps.
  struct State {
    int64_t taken = 0;
    // The last min(taken, kWindow) values, in the detector's own order, on which the rounding of
    // the mean depends.
    std::vector<double> window;
  };
  State state() const;
  // InvalidArgument if no detector could be in that state.
  absl::Status Restore(const State& state);

 private:
  std::array<double, kWindow> window_{};
  int64_t taken_ = 0;
};

}  // namespace zeroth
