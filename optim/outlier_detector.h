// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_OPTIM_OUTLIER_DETECTOR_H_
#define ZEROTH_OPTIM_OUTLIER_DETECTOR_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"

namespace zeroth {

// How far a loss, or a gradient norm, is from those of the steps before it: the measure by which
// llm.c (Karpathy et al., 2024) decides to skip an update, since a batch far out of the ordinary
// spoils weights and moments for many steps. The same values give the same verdicts, so ranks that
// see the same need not talk. A value type.
class OutlierDetector {
 public:
  static constexpr int64_t kWindow = 128;
  // No value is further from the mean of a window that it is itself part of: sqrt(n - 1).
  static double LargestZScore();

  // Takes `value` in, in the place of the oldest of a full window, and returns its z-score within
  // the window: (value - mean) / standard deviation, that of the values themselves (divided by n),
  // 0 where all are equal. Nothing until the window is full. A value that is not finite is not
  // taken in, and has no score.
  std::optional<double> Add(double value);

  // What a checkpoint keeps.
  struct State {
    int64_t taken = 0;
    // The last min(taken, kWindow) values, in an order of the detector's own: on it depends how the
    // mean is rounded.
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

#endif  // ZEROTH_OPTIM_OUTLIER_DETECTOR_H_
