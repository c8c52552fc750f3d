// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_METRICS_H_
#define ZEROTH_TRAIN_METRICS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/train/appended_file.h"
#include "zeroth/train/late_ranks.h"

namespace zeroth {

// One optimizer step, as it is reported.
struct StepMetrics {
  int64_t step = 0;      // from 1
  float loss = 0;        // mean over the global batch
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double tokens_per_second = 0;
  double wall_seconds = 0;  // of this run, up to the end of the step
  int64_t tokens = 0;       // of the data, by all ranks, earlier runs included
  double data_seconds = 0;  // of the step, that rank 0 waited for its data
  // Of the step, that rank 0's compute stream waited for collectives; none where steps are
  // recorded.
  std::optional<double> communication_seconds;
  // The model's operations as a part of the measured rate of products, and of a stated peak.
  std::optional<double> gemm_utilization;
  std::optional<double> mfu;
  std::optional<LateRank> late;   // in the step before this one
  int64_t memory_peak_bytes = 0;  // of one rank, the largest so far
  std::optional<float> eval_loss;
  std::optional<double> loss_scale;    // of the step, where the loss is scaled
  int64_t skipped_steps = 0;           // so far: a gradient was not finite, or the step an outlier
  std::optional<float> ema_eval_loss;  // of the average of the weights
  std::optional<double> loss_zscore;
  std::optional<double> grad_norm_zscore;
  std::optional<double> saving;  // the part of a checkpoint that has been written in the background
};

// Writes metrics.jsonl: one JSON object a line, written line by line, so that a run can be watched
// and survives what ends it (see AppendedFile). Numbers are printed with the fewest digits that
// read back as the same float or double; what is not finite becomes a string ("nan", "inf"), since
// JSON has no number for it.
class MetricsWriter {
 public:
  // Replaces the file. The error names the path and the reason.
  static absl::StatusOr<MetricsWriter> Create(const std::string& path);

  // Keeps the lines of the file about steps up to `step`, in place of which those after it will be
  // written again; everything else in it, a summary included, is dropped. The file that was there
  // stays until the new one is whole.
  static absl::StatusOr<MetricsWriter> Resume(const std::string& path, int64_t step);

  // A number that is not there has no key.
  absl::Status Write(const StepMetrics& metrics);
  // The last line: {"summary": ...}, its numbers by the same rule.
  absl::Status WriteSummary(const nlohmann::json& summary);

 private:
  explicit MetricsWriter(AppendedFile file) : file_(std::move(file)) {}

  AppendedFile file_;
};

nlohmann::json LateRankJson(const LateRank& late);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_METRICS_H_
