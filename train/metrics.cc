// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/metrics.h"

#include <fcntl.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// JSON has no numbers for these.
const char* NameOfNonFinite(double value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

// The shortest text that reads back as the same value.
template <typename T>
std::string Number(T value) {
  if (!std::isfinite(value)) return absl::StrCat("\"", NameOfNonFinite(value), "\"");
  char text[64];
  const std::to_chars_result result = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, result.ptr);
}

// Text of a value whose numbers that are not finite are strings, as in a step's line.
std::string Dump(nlohmann::json value) {
  const std::function<void(nlohmann::json&)> spell = [&](nlohmann::json& node) {
    if (node.is_structured()) {
      for (nlohmann::json& child : node) spell(child);
    } else if (node.is_number_float() && !std::isfinite(node.get<double>())) {
      node = NameOfNonFinite(node.get<double>());
    }
  };
  spell(value);
  return value.dump();
}

}  // namespace

absl::StatusOr<MetricsWriter> MetricsWriter::Create(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(AppendedFile file, AppendedFile::Open(path, O_TRUNC));
  return MetricsWriter(std::move(file));
}

absl::StatusOr<MetricsWriter> MetricsWriter::Resume(const std::string& path, int64_t step) {
  std::string kept;
  const absl::StatusOr<std::string> before = ReadFile(path, SIZE_MAX);
  if (!before.ok() && !absl::IsNotFound(before.status())) return before.status();
  for (const absl::string_view line : absl::StrSplit(before.ok() ? *before : "", '\n')) {
    // The last line may have been cut off by what ended the run.
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    if (json["step"].get<int64_t>() <= step) absl::StrAppend(&kept, line, "\n");
  }
  ZEROTH_RETURN_IF_ERROR(ReplaceFile(path, kept));
  ZEROTH_ASSIGN_OR_RETURN(AppendedFile file, AppendedFile::Open(path, 0));
  return MetricsWriter(std::move(file));
}

absl::Status MetricsWriter::Write(const StepMetrics& metrics) {
  std::string line = absl::StrCat(
      "{\"step\": ", metrics.step, ", \"loss\": ", Number(metrics.loss),
      ", \"grad_norm\": ", Number(metrics.grad_norm), ", \"lr\": ", Number(metrics.lr),
      ", \"tokens_per_second\": ", Number(metrics.tokens_per_second),
      ", \"wall_seconds\": ", Number(metrics.wall_seconds), ", \"tokens\": ", metrics.tokens,
      ", \"data_seconds\": ", Number(metrics.data_seconds),
      ", \"memory_peak_bytes\": ", metrics.memory_peak_bytes);
  if (metrics.communication_seconds.has_value())
    absl::StrAppend(&line, ", \"communication_seconds\": ", Number(*metrics.communication_seconds));
  if (metrics.gemm_utilization.has_value())
    absl::StrAppend(&line, ", \"gemm_utilization\": ", Number(*metrics.gemm_utilization));
  if (metrics.mfu.has_value()) absl::StrAppend(&line, ", \"mfu\": ", Number(*metrics.mfu));
  if (metrics.late.has_value())
    absl::StrAppend(&line, ", \"late\": ", Dump(LateRankJson(*metrics.late)));
  if (metrics.skipped_steps > 0)
    absl::StrAppend(&line, ", \"skipped_steps\": ", metrics.skipped_steps);
  if (metrics.loss_scale.has_value())
    absl::StrAppend(&line, ", \"loss_scale\": ", Number(*metrics.loss_scale));
  if (metrics.loss_zscore.has_value())
    absl::StrAppend(&line, ", \"loss_zscore\": ", Number(*metrics.loss_zscore));
  if (metrics.grad_norm_zscore.has_value())
    absl::StrAppend(&line, ", \"grad_norm_zscore\": ", Number(*metrics.grad_norm_zscore));
  if (metrics.eval_loss.has_value())
    absl::StrAppend(&line, ", \"eval_loss\": ", Number(*metrics.eval_loss));
  if (metrics.ema_eval_loss.has_value())
    absl::StrAppend(&line, ", \"ema_eval_loss\": ", Number(*metrics.ema_eval_loss));
  return file_.Append(line + "}\n");
}

absl::Status MetricsWriter::WriteSummary(const nlohmann::json& summary) {
  return file_.Append(Dump({{"summary", summary}}) + "\n");
}

nlohmann::json LateRankJson(const LateRank& late) {
  return {{"rank", late.rank},
          {"since_step", late.since},
          {"until_step", late.until},
          {"seconds", late.seconds},
          {"mean_seconds", late.mean_seconds},
          {"worst_seconds", late.worst_seconds}};
}

}  // namespace zeroth
