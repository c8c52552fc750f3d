// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/metrics.h"

#include <fcntl.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <type_traits>
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

const char* NameOfNonFinite(double value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

// Returns the shortest text that reads back as the same value.
template <typename T>
std::string Number(T value) {
  if (std::is_floating_point_v<T> && !std::isfinite(value))
    return absl::StrCat("\"", NameOfNonFinite(value), "\"");
  char text[64];
  const std::to_chars_result result = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, result.ptr);
}

// Returns the JSON text of a value. Numbers that are not finite become strings.
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
    // The last line may be incomplete if the run was killed.
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    if (json["step"].get<int64_t>() <= step) absl::StrAppend(&kept, line, "\n");
  }
  ZEROTH_RETURN_IF_ERROR(ReplaceFile(path, kept));
  ZEROTH_ASSIGN_OR_RETURN(AppendedFile file, AppendedFile::Open(path, 0));
  return MetricsWriter(std::move(file));
}

std::vector<StepNumber> NumbersOf(const StepMetrics& metrics) {
  std::vector<StepNumber> numbers;
  const auto add = [&](const char* key, const char* tag, auto value) {
    numbers.push_back({key, tag, static_cast<double>(value), Number(value)});
  };
  const auto add_known = [&](const char* key, const char* tag, const auto& value) {
    if (value.has_value()) add(key, tag, *value);
  };
  add("step", "", metrics.step);
  add("loss", "train/loss", metrics.loss);
  add("grad_norm", "train/gradient_norm", metrics.grad_norm);
  add("lr", "train/learning_rate", metrics.lr);
  add("tokens_per_second", "speed/tokens_per_second", metrics.tokens_per_second);
  add("wall_seconds", "", metrics.wall_seconds);
  add("tokens", "", metrics.tokens);
  add("data_seconds", "speed/seconds_waited_for_data", metrics.data_seconds);
  add("memory_peak_bytes", "", metrics.memory_peak_bytes);
  add_known("communication_seconds", "speed/seconds_waited_for_communication",
            metrics.communication_seconds);
  add_known("gemm_utilization", "speed/gemm_utilization", metrics.gemm_utilization);
  add_known("mfu", "speed/mfu", metrics.mfu);
  if (metrics.skipped_steps > 0) add("skipped_steps", "", metrics.skipped_steps);
  add_known("loss_scale", "train/loss_scale", metrics.loss_scale);
  add_known("loss_zscore", "train/loss_zscore", metrics.loss_zscore);
  add_known("grad_norm_zscore", "train/gradient_norm_zscore", metrics.grad_norm_zscore);
  add_known("eval_loss", "evaluation/loss", metrics.eval_loss);
  add_known("ema_eval_loss", "evaluation/loss_of_averaged_weights", metrics.ema_eval_loss);
  return numbers;
}

absl::Status MetricsWriter::Write(const StepMetrics& metrics) {
  std::string line;
  for (const StepNumber& number : NumbersOf(metrics)) {
    absl::StrAppend(&line, line.empty() ? "{" : ", ", "\"", number.key, "\": ", number.text);
  }
  if (metrics.late.has_value()) {
    absl::StrAppend(&line, ", \"late\": ", Dump(LateRankJson(*metrics.late)));
  }
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
