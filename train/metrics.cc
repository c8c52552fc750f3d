// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/metrics.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// The shortest text that reads back as the same value.
template <typename T>
std::string Number(T value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  char text[64];
  const std::to_chars_result result = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, result.ptr);
}

}  // namespace

MetricsWriter::MetricsWriter(std::string path, std::ofstream file)
    : path_(std::move(path)), file_(std::move(file)) {}

absl::StatusOr<MetricsWriter> MetricsWriter::Create(const std::string& path) {
  std::ofstream file(path, std::ios::trunc);
  if (!file)
    return absl::PermissionDeniedError(
        absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  return MetricsWriter(path, std::move(file));
}

absl::StatusOr<MetricsWriter> MetricsWriter::Resume(const std::string& path, int64_t step) {
  std::string kept;
  std::ifstream before(path);
  for (std::string line; std::getline(before, line);) {
    // The last line may have been cut off by what ended the run.
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    if (json["step"].get<int64_t>() <= step) absl::StrAppend(&kept, line, "\n");
  }
  const std::string temporary = TemporarySibling(path, "tmp");
  ZEROTH_RETURN_IF_ERROR(WriteFileDurably(temporary, kept));
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  std::ofstream file(path, std::ios::app);
  if (error || !file) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot write ", path, ": ", error ? error.message() : std::strerror(errno)));
  }
  return MetricsWriter(path, std::move(file));
}

absl::Status MetricsWriter::Write(const StepMetrics& metrics) {
  std::string line =
      absl::StrCat("{\"step\": ", metrics.step, ", \"loss\": ", Number(metrics.loss),
                   ", \"grad_norm\": ", Number(metrics.grad_norm), ", \"lr\": ", Number(metrics.lr),
                   ", \"tokens_per_second\": ", Number(metrics.tokens_per_second),
                   ", \"memory_peak_bytes\": ", metrics.memory_peak_bytes);
  if (metrics.skipped_steps > 0)
    absl::StrAppend(&line, ", \"skipped_steps\": ", metrics.skipped_steps);
  if (metrics.loss_scale.has_value())
    absl::StrAppend(&line, ", \"loss_scale\": ", *metrics.loss_scale);
  if (metrics.loss_zscore.has_value())
    absl::StrAppend(&line, ", \"loss_zscore\": ", Number(*metrics.loss_zscore));
  if (metrics.grad_norm_zscore.has_value())
    absl::StrAppend(&line, ", \"grad_norm_zscore\": ", Number(*metrics.grad_norm_zscore));
  if (metrics.eval_loss.has_value())
    absl::StrAppend(&line, ", \"eval_loss\": ", Number(*metrics.eval_loss));
  if (metrics.ema_eval_loss.has_value())
    absl::StrAppend(&line, ", \"ema_eval_loss\": ", Number(*metrics.ema_eval_loss));
  return WriteLine(line + "}");
}

absl::Status MetricsWriter::WriteSummary(const nlohmann::json& summary) {
  return WriteLine(nlohmann::json{{"summary", summary}}.dump());
}

absl::Status MetricsWriter::WriteLine(const std::string& line) {
  file_ << line << '\n' << std::flush;
  if (!file_)
    return absl::DataLossError(absl::StrCat("writing ", path_, " failed: ", std::strerror(errno)));
  return absl::OkStatus();
}

}  // namespace zeroth
