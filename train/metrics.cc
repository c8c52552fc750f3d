// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/errno_status.h"
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

template <typename T>
StepNumber MakeNumber(const char* key, const char* tag, T value) {
  return {key, tag, static_cast<double>(value), Number(value)};
}

// Returns the members of a JSON object.
std::string Members(const std::vector<StepNumber>& numbers) {
  return absl::StrJoin(numbers, ", ", [](std::string* out, const StepNumber& number) {
    absl::StrAppend(out, "\"", number.key, "\": ", number.text);
  });
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

// Fields in the wire format of protocol buffers. Numbers and types are those of tensorflow's
// event.proto, summary.proto and tensor.proto.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

template <typename T>
std::string Fixed(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string Tag(int field, WireType type) {
  return Varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}
std::string VarintField(int field, uint64_t value) {
  return absl::StrCat(Tag(field, kVarint), Varint(value));
}
std::string BytesField(int field, absl::string_view bytes) {
  return absl::StrCat(Tag(field, kBytes), Varint(bytes.size()), bytes);
}

// An event has a few hundred bytes, so the bitwise algorithm is fast enough.
uint32_t MaskedCrc32c(absl::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  crc = ~crc;
  // TFRecord masks checksums, because checksums of data that contain checksums are weak.
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

}  // namespace

absl::StatusOr<AppendedFile> AppendedFile::Open(const std::string& path, int flags) {
  FileDescriptor file(TEMP_FAILURE_RETRY(
      open(path.c_str(), flags | O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)));
  if (!file.is_open()) return ErrnoStatus(errno, absl::StrCat("write ", path));
  return AppendedFile(path, std::move(file));
}

absl::Status AppendedFile::Append(absl::string_view record) {
  absl::StrAppend(&unwritten_, record);
  while (!unwritten_.empty()) {
    const ssize_t written = write(file_.descriptor(), unwritten_.data(), unwritten_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, absl::StrCat("write ", path_));
    unwritten_.erase(0, static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AppendedFile::Sync() {
  if (fdatasync(file_.descriptor()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("write ", path_, " to storage"));
}

absl::StatusOr<MetricsWriter> MetricsWriter::Create(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(AppendedFile file, AppendedFile::Open(path, O_TRUNC));
  return MetricsWriter(std::move(file));
}

absl::StatusOr<MetricsWriter> MetricsWriter::Resume(const std::string& path, int64_t step) {
  std::string kept;
  std::string summary;
  nlohmann::json earlier;
  bool has_step = false;
  bool has_evaluation = false;
  const absl::StatusOr<std::string> before = ReadFile(path, SIZE_MAX);
  if (!before.ok() && !absl::IsNotFound(before.status())) return before.status();
  for (const absl::string_view line : absl::StrSplit(before.ok() ? *before : "", '\n')) {
    // The last line may be incomplete if the run was killed.
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    const bool is_summary = json.contains("summary") && json["summary"].is_object();
    const nlohmann::json last = is_summary ? json["summary"].value("steps", nlohmann::json())
                                           : json.value("step", nlohmann::json());
    if (!last.is_number_integer() || last.get<int64_t>() > step) continue;
    if (is_summary) {
      if (last.get<int64_t>() < step) continue;
      summary = absl::StrCat(line, "\n");
      earlier = json["summary"];
      continue;
    }
    absl::StrAppend(&kept, line, "\n");
    if (last.get<int64_t>() != step) continue;
    has_step = has_step || json.contains("loss");
    has_evaluation = has_evaluation || json.contains("eval_loss");
  }
  ZEROTH_RETURN_IF_ERROR(ReplaceFile(path, absl::StrCat(kept, summary)));
  ZEROTH_ASSIGN_OR_RETURN(AppendedFile file, AppendedFile::Open(path, 0));
  MetricsWriter writer(std::move(file));
  writer.lacks_evaluation_ = has_step && !has_evaluation;
  writer.earlier_summary_ = std::move(earlier);
  if (!summary.empty()) writer.lines_ = std::move(kept);
  return writer;
}

std::vector<StepNumber> NumbersOf(const StepMetrics& metrics) {
  std::vector<StepNumber> numbers;
  const auto add = [&](const char* key, const char* tag, auto value) {
    numbers.push_back(MakeNumber(key, tag, value));
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
  if (metrics.preference.has_value()) {
    const bool chosen = metrics.preference->has_chosen();
    const bool rejected = metrics.preference->has_rejected();
    if (chosen) add("reward_chosen", "train/reward_chosen", metrics.preference->reward_chosen);
    if (rejected) {
      add("reward_rejected", "train/reward_rejected", metrics.preference->reward_rejected);
    }
    if (chosen && rejected) {
      add("reward_margin", "train/reward_margin", metrics.preference->margin());
    }
    add("reward_accuracy", "train/reward_accuracy", metrics.preference->accuracy);
    add_known("kl", "train/kl", metrics.preference->kl);
  }
  if (metrics.experts.has_value()) {
    add("expert_load_max", "train/expert_load_max", metrics.experts->largest);
    add("experts_unused", "train/experts_unused", metrics.experts->unused);
  }
  add_known("loss_zscore", "train/loss_zscore", metrics.loss_zscore);
  add_known("grad_norm_zscore", "train/gradient_norm_zscore", metrics.grad_norm_zscore);
  return numbers;
}

std::vector<StepNumber> NumbersOf(const EvaluationMetrics& metrics) {
  std::vector<StepNumber> numbers = {MakeNumber("step", "", metrics.step),
                                     MakeNumber("eval_loss", "evaluation/loss", metrics.loss)};
  if (metrics.preference.has_value()) {
    if (metrics.preference->has_chosen() && metrics.preference->has_rejected()) {
      numbers.push_back(MakeNumber("eval_reward_margin", "evaluation/reward_margin",
                                   metrics.preference->margin()));
    }
    numbers.push_back(MakeNumber("eval_reward_accuracy", "evaluation/reward_accuracy",
                                 metrics.preference->accuracy));
  }
  if (metrics.ema_loss.has_value()) {
    numbers.push_back(
        MakeNumber("ema_eval_loss", "evaluation/loss_of_averaged_weights", *metrics.ema_loss));
  }
  return numbers;
}

absl::Status MetricsWriter::Write(const StepMetrics& metrics) {
  std::string line = Members(NumbersOf(metrics));
  if (metrics.late.has_value()) {
    absl::StrAppend(&line, ", \"late\": ", Dump(StragglerJson(*metrics.late)));
  }
  return AppendWithoutSummary(absl::StrCat("{", line, "}\n"));
}

absl::Status MetricsWriter::Write(const EvaluationMetrics& metrics) {
  return Append(absl::StrCat("{", Members(NumbersOf(metrics)), "}\n"));
}

absl::Status MetricsWriter::WriteSummary(const nlohmann::json& summary) {
  return AppendWithoutSummary(Dump({{"summary", summary}}) + "\n");
}

absl::Status MetricsWriter::Append(absl::string_view line) {
  if (lines_.has_value()) absl::StrAppend(&*lines_, line);
  return file_.Append(line);
}

absl::Status MetricsWriter::AppendWithoutSummary(absl::string_view line) {
  if (!lines_.has_value()) return Append(line);
  const auto replace = [&]() -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(ReplaceFile(file_.path(), absl::StrCat(*lines_, line)));
    ZEROTH_ASSIGN_OR_RETURN(file_, AppendedFile::Open(file_.path(), 0));
    lines_.reset();
    return absl::OkStatus();
  };
  const absl::Status status = replace();
  // The line follows the summary then. Readers take the last summary.
  if (!status.ok()) Append(line).IgnoreError();
  return status;
}

nlohmann::json StragglerJson(const Straggler& late) {
  return {{"rank", late.rank},
          {"since_step", late.since},
          {"until_step", late.until},
          {"seconds", late.seconds},
          {"mean_seconds", late.mean_seconds},
          {"worst_seconds", late.worst_seconds}};
}

absl::StatusOr<EventFile> EventFile::Create(const std::string& directory, int64_t last_step) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  const std::string path =
      absl::StrCat(directory, "/", kEventFilePrefix, absl::ToUnixSeconds(absl::Now()), ".",
                   host[0] == '\0' ? "localhost" : host, ".", getpid());
  ZEROTH_ASSIGN_OR_RETURN(AppendedFile file, AppendedFile::Open(path, O_TRUNC));
  EventFile events(std::move(file));
  ZEROTH_RETURN_IF_ERROR(
      events.WriteEvent(0, BytesField(/*Event.file_version*/ 3, "brain.Event:2")));
  if (last_step > 0) {
    // SessionLog.status = START: entries of other files for this step and later ones are outdated.
    ZEROTH_RETURN_IF_ERROR(events.WriteEvent(
        last_step + 1, BytesField(/*Event.session_log*/ 7, VarintField(/*status*/ 1, 1))));
  }
  return events;
}

absl::Status EventFile::WriteScalars(int64_t step, absl::Span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    absl::StrAppend(&summary, BytesField(/*Summary.value*/ 1,
                                         absl::StrCat(BytesField(/*tag*/ 1, scalar.tag),
                                                      Tag(/*simple_value*/ 2, kFixed32),
                                                      Fixed(static_cast<float>(scalar.value)))));
  }
  return WriteEvent(step, BytesField(/*Event.summary*/ 5, summary));
}

absl::Status EventFile::WriteText(int64_t step, absl::string_view tag, absl::string_view markdown) {
  const std::string plugin =
      BytesField(/*SummaryMetadata.plugin_data*/ 1, BytesField(/*plugin_name*/ 1, "text"));
  const std::string shape = BytesField(/*TensorShapeProto.dim*/ 2, VarintField(/*size*/ 1, 1));
  const std::string tensor =
      absl::StrCat(VarintField(/*TensorProto.dtype, DT_STRING*/ 1, 7),
                   BytesField(/*tensor_shape*/ 2, shape), BytesField(/*string_val*/ 8, markdown));
  return WriteEvent(step, BytesField(/*Event.summary*/ 5,
                                     BytesField(/*Summary.value*/ 1,
                                                absl::StrCat(BytesField(/*tag*/ 1, tag),
                                                             BytesField(/*tensor*/ 8, tensor),
                                                             BytesField(/*metadata*/ 9, plugin)))));
}

absl::Status EventFile::WriteEvent(int64_t step, const std::string& rest) {
  const std::string event =
      absl::StrCat(Tag(/*Event.wall_time*/ 1, kFixed64),
                   Fixed(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch())),
                   VarintField(/*step*/ 2, static_cast<uint64_t>(step)), rest);
  const std::string length = Fixed(static_cast<uint64_t>(event.size()));
  return file_.Append(
      absl::StrCat(length, Fixed(MaskedCrc32c(length)), event, Fixed(MaskedCrc32c(event))));
}

}  // namespace zeroth
