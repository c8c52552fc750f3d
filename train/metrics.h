// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/expert_load.h"
#include "zeroth/core/base/file/file_descriptor.h"
#include "zeroth/kernels/preference/preference.h"
#include "zeroth/train/straggler_detector.h"

namespace zeroth {

// The reported values of one optimizer step.
struct StepMetrics {
  int64_t step = 0;      // from 1
  float loss = 0;        // mean over the global batch
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double tokens_per_second = 0;
  double wall_seconds = 0;  // from the start of this run to the end of the step
  int64_t tokens = 0;       // read so far by all ranks, including earlier runs
  double data_seconds = 0;  // that rank 0 waited for data in the step
  // Seconds that rank 0's compute stream waited for collectives in the step; not set for recorded
  // steps.
  std::optional<double> communication_seconds;
  // The model's FLOP/s as a fraction of the measured rate of matmuls, and of a stated peak.
  std::optional<double> gemm_utilization;
  std::optional<double> mfu;
  std::optional<Straggler> late;     // in the step before this one
  int64_t memory_peak_bytes = 0;     // of rank 0, so far
  std::optional<double> loss_scale;  // of the step, if the loss is scaled
  int64_t skipped_steps = 0;         // so far, for gradients that were not finite and for outliers
  std::optional<PreferenceStatistics> preference;  // of the global batch's pairs
  std::optional<ExpertLoad> experts;               // of the global batch's tokens
  std::optional<double> loss_zscore;
  std::optional<double> grad_norm_zscore;
  std::optional<double> saving;  // fraction written of the checkpoint in flight
};

// The losses on held-out data after `step` steps. Not part of StepMetrics, because a step is
// recorded, and may be saved in a checkpoint, before it is evaluated.
struct EvaluationMetrics {
  int64_t step = 0;
  float loss = 0;
  std::optional<float> ema_loss;  // with the average of the weights
  std::optional<PreferenceStatistics> preference = {};
};

// A number of a step, as metrics.jsonl and TensorBoard's event file show it.
struct StepNumber {
  const char* key;  // in metrics.jsonl
  const char* tag;  // in the event file; empty: not written there
  double value;
  std::string text;  // JSON, with the fewest digits that read back as the same float or double
};
// Returns the numbers of a step that are known. To add a number, add a line to the definition.
std::vector<StepNumber> NumbersOf(const StepMetrics& metrics);
std::vector<StepNumber> NumbersOf(const EvaluationMetrics& metrics);

// A file that grows record by record and can be read meanwhile. Bytes that cannot be written are
// kept and written before the next record: after an error, records are late, but none is lost or
// torn. Errors name the path and the reason.
class AppendedFile {
 public:
  // `flags` are added to the flags of open(2) for appending: O_TRUNC empties the file.
  static absl::StatusOr<AppendedFile> Open(const std::string& path, int flags);

  absl::Status Append(absl::string_view record);
  // Makes the appended records survive a power failure.
  absl::Status Sync();
  const std::string& path() const { return path_; }

 private:
  AppendedFile(std::string path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  FileDescriptor file_;
  std::string unwritten_;
};

inline constexpr char kMetricsFile[] = "metrics.jsonl";

// Writes metrics.jsonl: one JSON object a line for each step and for each evaluation, written line
// by line, so that a run can be watched and its metrics survive a crash (see AppendedFile). Numbers
// have the fewest digits that read back as the same float or double. Values that are not finite
// become strings ("nan", "inf"), since JSON has no numbers for them.
class MetricsWriter {
 public:
  // Replaces the file. The error names the path and the reason.
  static absl::StatusOr<MetricsWriter> Create(const std::string& path);

  // Keeps the lines of steps up to `step`, and drops those of later steps, which the resumed run
  // writes again. An earlier summary of these steps stays in the file until this run writes a step
  // or a summary, so that a run which dies before that has lost nothing. The old file stays until
  // the new one is complete.
  static absl::StatusOr<MetricsWriter> Resume(const std::string& path, int64_t step);

  // After Resume: true if the last step that was kept has a line, but no evaluation.
  bool lacks_evaluation() const { return lacks_evaluation_; }

  // After Resume: the earlier summary of the steps that were kept; null if there was none.
  const nlohmann::json& earlier_summary() const { return earlier_summary_; }

  // Unknown numbers have no key in the line.
  absl::Status Write(const StepMetrics& metrics);
  absl::Status Write(const EvaluationMetrics& metrics);
  // Writes the last line, {"summary": ...}, with numbers in the same form.
  absl::Status WriteSummary(const nlohmann::json& summary);
  // Makes the written lines survive a power failure.
  absl::Status Sync() { return file_.Sync(); }

 private:
  explicit MetricsWriter(AppendedFile file) : file_(std::move(file)) {}

  absl::Status Append(absl::string_view line);
  // Like Append. An earlier summary leaves the file in the same moment.
  absl::Status AppendWithoutSummary(absl::string_view line);

  AppendedFile file_;
  bool lacks_evaluation_ = false;
  nlohmann::json earlier_summary_;
  // While the earlier summary is in the file: all other lines.
  std::optional<std::string> lines_;
};

nlohmann::json StragglerJson(const Straggler& late);

// The prefix of event files' names, by which TensorBoard finds them.
inline constexpr char kEventFilePrefix[] = "events.out.tfevents.";

// Writes an event file of TensorBoard: TFRecords (length, data and their masked CRC-32Cs) of the
// protocol buffer tensorflow.Event. Every call writes through to the file (AppendedFile). One
// thread at a time.
class EventFile {
 public:
  struct Scalar {
    std::string tag;
    double value = 0;  // kept as a float
  };

  // Creates a file in `directory`, beside those of earlier runs. TensorBoard reads them together
  // and uses this file for the steps after `last_step`, the last step of earlier runs.
  static absl::StatusOr<EventFile> Create(const std::string& directory, int64_t last_step);

  absl::Status WriteScalars(int64_t step, absl::Span<const Scalar> scalars);
  // `markdown` appears under the tag in TensorBoard's tab TEXT.
  absl::Status WriteText(int64_t step, absl::string_view tag, absl::string_view markdown);

 private:
  explicit EventFile(AppendedFile file) : file_(std::move(file)) {}
  // `rest`: all fields of the event except its time and step.
  absl::Status WriteEvent(int64_t step, const std::string& rest);

  AppendedFile file_;
};

}  // namespace zeroth
