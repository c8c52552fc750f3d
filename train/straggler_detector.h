// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace zeroth {

// A straggler: a rank that the others waited for, over a period of steps.
struct Straggler {
  int rank = 0;
  int64_t since = 0;   // first step of the period
  int64_t until = 0;   // last step of the period
  double seconds = 0;  // delay in the last step; 0 if it was in time
  double mean_seconds = 0;
  double worst_seconds = 0;
};

// Finds stragglers. All ranks end a step together, so the rank that reaches collectives last waits
// least. A rank's delay in a step is the mean wait of the other ranks minus this rank's wait.
//
// A period begins when a rank's delay exceeds kTolerated of a step. It lasts while the sum of the
// delays beyond kTolerated stays positive (Page's cumulative sums). So one early step does not end
// a period, and if the straggler changes from step to step, there is none.
class StragglerDetector {
 public:
  static constexpr double kTolerated = 0.02;
  // Delays below a second are noise of other programs.
  static constexpr double kLeastSeconds = 1;

  explicit StragglerDetector(int ranks) : ranks_(static_cast<size_t>(ranks)) {}

  // Adds the next step: the seconds that each rank waited in it, and its length.
  void Add(int64_t step, absl::Span<const double> waited, double step_seconds);
  // Returns the current period with the largest sum, or nullopt if all ranks are in time.
  std::optional<Straggler> now() const;
  // Returns the worst of all periods so far, each counted up to its largest sum. nullopt if that
  // sum is at most kTolerated of the time of all steps, or at most kLeastSeconds.
  std::optional<Straggler> worst() const;

 private:
  struct Rank {
    Straggler period;  // no current period if `sum` is 0
    double sum = 0;
  };

  std::vector<Rank> ranks_;
  Straggler worst_;
  double worst_sum_ = 0;
  double seconds_ = 0;  // of all steps
};

// Returns "rank 2 from step 21 to 200: the others waited 48.2 ms a step for it, and 60.1 ms at
// most".
std::string StragglerText(const Straggler& late);

}  // namespace zeroth
