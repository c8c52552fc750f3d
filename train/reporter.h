// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/api/trainer.h"
#include "zeroth/train/metrics.h"
#include "zeroth/train/progress.h"
#include "zeroth/train/run_input.h"
#include "zeroth/train/run_spec.h"
#include "zeroth/train/straggler_detector.h"

namespace zeroth {

// Prints and writes the report of a run, on rank 0.
class Reporter {
 public:
  // `out` is the run's directory, unused if the run only evaluates, `first_step` the number of
  // steps that earlier runs have made, and `steps` that number at the run's end. `spec`, `input`
  // and `trainer` outlive the result. Prints the run's header. Errors of MetricsWriter and
  // EventFile.
  static absl::StatusOr<std::unique_ptr<Reporter>> Create(const RunSpec& spec,
                                                          const RunInput& input, Trainer& trainer,
                                                          const std::string& out, double gemm_rate,
                                                          int64_t first_step, int64_t steps);

  // `waited`: seconds that each rank waited in the previous step (StepResult::waited_before).
  void Step(const StepMetrics& metrics, absl::Span<const double> waited, double seconds_left);
  // Prints and writes the losses on held-out data. A run that only evaluates writes nothing.
  void Evaluation(const EvaluationMetrics& metrics);
  // See MetricsWriter::lacks_evaluation.
  bool lacks_evaluation() const { return metrics_.has_value() && metrics_->lacks_evaluation(); }
  void Say(const std::string& line) { progress_.Print(line); }
  void Sample(int64_t step, const std::string& text);
  // Prints an error that does not end the run.
  void Warn(const absl::Status& status);
  // Makes the metrics of the steps so far survive a power failure.
  void SyncMetrics();
  // Writes the last line of metrics.jsonl. `skipped_steps` counts those of earlier runs, too.
  void WriteSummary(bool interrupted, bool failed, int64_t skipped_steps, double seconds);
  // `how` is "done" or another end of the run; `saved` names the output besides the metrics, such
  // as "model in run/final", and `advice` is the next thing to do, or empty.
  void PrintEnd(const std::string& how, double seconds, const std::vector<std::string>& saved,
                const std::string& advice);

 private:
  Reporter(const RunSpec& spec, const RunInput& input, Trainer& trainer, std::string out,
           std::optional<MetricsWriter> metrics, const ProgressOptions& progress,
           int64_t first_step);

  // Reports the first failed write of metrics, and the first that succeeds again. AppendedFile
  // writes the missing lines later.
  void Written(const absl::Status& status);
  absl::Status WriteEvents(const StepMetrics& metrics);
  absl::Status WriteEvents(const EvaluationMetrics& metrics);
  // Returns the measured step with the values that are computed from it.
  StepMetrics Completed(StepMetrics metrics) const;
  void PrintHeader(double gemm_rate, int64_t steps);
  // Prints the slow matmuls so far, if there are more than were printed before.
  void PrintSlowMatmuls();
  void PrintAdapters();
  // Prints which layers compute in fp8, and each layer that does not.
  void PrintFp8();

  const TrainOptions& options_;
  const RunInput& input_;
  Trainer& trainer_;
  const std::string out_;
  std::optional<MetricsWriter> metrics_;  // nullopt if the run only evaluates
  std::optional<EventFile> events_;       // with --tensorboard
  bool metrics_are_written_ = true;
  Progress progress_;
  const int64_t first_step_;
  size_t slow_matmuls_ = 0;  // number that was printed
  StragglerDetector late_;
  StepMetrics last_;
};

}  // namespace zeroth
