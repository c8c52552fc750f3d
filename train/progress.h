// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "zeroth/train/metrics.h"

namespace zeroth {

struct ProgressOptions {
  int64_t steps = 0;
  int64_t log_every = 10;
  double flops_per_token = 0;
  // Measured FLOP/s of all ranks together in matmuls; 0: unknown, and no utilization is shown.
  double gemm_rate = 0;
  std::FILE* out = stdout;
};

// Returns "step 120/200  loss 2.4101  norm 0.83  lr 5.0e-04  24.1k tok/s  GEMM util 41%  mem 38
// MiB/rank left 0:31". GEMM util is the model's FLOP/s as a fraction of the measured rate of
// matmuls, at most 100%.
std::string FormatProgress(const ProgressOptions& options, const StepMetrics& metrics,
                           double seconds_left);
// Returns "  margin 0.120  accuracy 0.75", without the margin if no answer of a batch of judgements
// is desirable, or none undesirable; empty without statistics.
std::string FormatPreference(const std::optional<PreferenceStatistics>& preference);
// Returns "1:02:03", "4:05" or "0:07".
std::string FormatDuration(double seconds);
// Returns "38.2 MiB".
std::string FormatBytes(int64_t bytes);

// Returns the first `width` columns of an ASCII line, or the whole line if `width` is not positive.
std::string FitToWidth(const std::string& line, int width);

// Shows the progress of training: on a terminal as one line that is redrawn, otherwise as a line
// for the run's first step (of a resumed run, too), every log_every steps, and the last step. Print
// does not disturb the redrawn line. One thread only.
class Progress {
 public:
  explicit Progress(const ProgressOptions& options);

  // If a step is faster than the measured rate of matmuls, that rate was too low, and the step's
  // rate replaces it.
  void Step(const StepMetrics& metrics, double seconds_left);
  // Returns the GEMM util of a step as it is shown, from 0 to 1, or nullopt if the rate is unknown.
  std::optional<double> Utilization(const StepMetrics& metrics) const;
  // Prints a separate line.
  void Print(const std::string& line);
  // Ends the redrawn line, which stays visible.
  void Finish();

 private:
  ProgressOptions options_;
  bool live_;
  bool started_ = false;  // a step has been shown
  bool beaten_ = false;   // a step was faster than the measured rate
  std::string shown_;     // the line that is on the terminal now
};

}  // namespace zeroth
