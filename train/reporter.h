// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_REPORTER_H_
#define ZEROTH_TRAIN_REPORTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/train/event_file.h"
#include "zeroth/train/job.h"
#include "zeroth/train/late_ranks.h"
#include "zeroth/train/metrics.h"
#include "zeroth/train/progress.h"
#include "zeroth/train/trainer.h"

namespace zeroth {

// Rank 0's side of a run: what is printed and written.
class Reporter {
 public:
  // `first_step`: steps that earlier runs have made. `job` and `trainer` outlive it. Prints the
  // run's header. Errors of MetricsWriter and EventFile.
  static absl::StatusOr<std::unique_ptr<Reporter>> Create(const Job& job, Trainer& trainer,
                                                          double gemm_rate, int64_t first_step);

  // `waited`: by each rank in the step before, see StepResult.
  void Step(const StepMetrics& metrics, absl::Span<const double> waited, double seconds_left);
  void SayEvaluation(const StepMetrics& metrics);
  void Say(const std::string& line) { progress_.Print(line); }
  void Sample(int64_t step, const std::string& text);
  // What the run outlives.
  void Warn(const absl::Status& status);
  void WriteSummary(bool interrupted, double seconds);
  // `how`: "done", or what ended the run; `models`: those that were written.
  void SayEnd(const std::string& how, double seconds, const std::vector<std::string>& models);

 private:
  Reporter(const Job& job, Trainer& trainer, std::optional<MetricsWriter> metrics,
           const ProgressOptions& progress, int64_t first_step);

  // Lines that could not be written are written later: the first of them is told of, and the end.
  void Written(const absl::Status& status);
  absl::Status WriteEvents(const StepMetrics& metrics);
  // A step as it was measured, with what follows from it.
  StepMetrics Completed(StepMetrics metrics) const;
  void PrintHeader(double gemm_rate);
  // What differs from fp32 masters and moments.
  void PrintOptimizer();
  // Those that the steps so far have made, as soon as there are more than were said.
  void PrintSlowProducts();
  void PrintAdapters();
  // What stays in more bits is said, layer by layer.
  void PrintFp8();

  const Job& job_;
  Trainer& trainer_;
  std::optional<MetricsWriter> metrics_;  // none where nothing is trained
  std::optional<EventFile> events_;       // of --tensorboard
  bool metrics_are_written_ = true;
  Progress progress_;
  const int64_t first_step_;
  size_t slow_products_ = 0;  // that were printed
  LateRanks late_;
  StepMetrics last_;
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_REPORTER_H_
