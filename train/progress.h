// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_PROGRESS_H_
#define ZEROTH_TRAIN_PROGRESS_H_

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
  // FLOP/s of all ranks together in products, as measured; 0: unknown, no utilisation is shown.
  double gemm_rate = 0;
  std::FILE* out = stdout;
};

// "step 120/200  loss 2.4101  norm 0.83  lr 5.0e-04  24.1k tok/s  GEMM util 41%  mem 38 MiB/rank
// left 0:31". GEMM util: the model's FLOP/s as a part of the measured rate of products, at most
// all.
std::string FormatProgress(const ProgressOptions& options, const StepMetrics& metrics,
                           double seconds_left);
// "1:02:03", "4:05", "0:07".
std::string FormatDuration(double seconds);
// "38.2 MiB".
std::string FormatBytes(int64_t bytes);

// The first `width` columns of an ASCII line; all of it if width is not positive.
std::string FitToWidth(const std::string& line, int width);

// Shows how training goes: on a terminal one line that is redrawn, otherwise a line every log_every
// steps, the first and the last. Lines printed in between through Print do not tear it. One thread
// only.
class Progress {
 public:
  explicit Progress(const ProgressOptions& options);

  // A step that beats the measured rate of products shows that it was measured too low: from then
  // on that step's counts.
  void Step(const StepMetrics& metrics, double seconds_left);
  // GEMM util of a step as it is shown, from 0 to 1; none if the rate is unknown.
  std::optional<double> Utilization(const StepMetrics& metrics) const;
  // A line of its own.
  void Print(const std::string& line);
  // Leaves the live line standing.
  void Finish();

 private:
  ProgressOptions options_;
  bool live_;
  bool beaten_ = false;  // the measured rate
  std::string shown_;    // the live line as it stands on the terminal
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_PROGRESS_H_
