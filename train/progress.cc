// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/progress.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace zeroth {
namespace {

std::string FormatRate(double tokens_per_second) {
  if (tokens_per_second >= 1e6) return absl::StrFormat("%.2fM", tokens_per_second / 1e6);
  if (tokens_per_second >= 1e4) return absl::StrFormat("%.1fk", tokens_per_second / 1e3);
  return absl::StrFormat("%.0f", tokens_per_second);
}

std::optional<double> UtilizationOf(const ProgressOptions& options, const StepMetrics& metrics) {
  if (options.gemm_rate <= 0) return std::nullopt;
  return std::min(1.0, metrics.tokens_per_second * options.flops_per_token / options.gemm_rate);
}

// Returns the columns of the terminal behind `out`, or 0 if it is not one. mpirun gives its ranks a
// terminal without columns, and copies their output to its own.
int TerminalWidth(std::FILE* out) {
  winsize size = {};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const int64_t total = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (total >= 3600)
    return absl::StrFormat("%d:%02d:%02d", total / 3600, total / 60 % 60, total % 60);
  return absl::StrFormat("%d:%02d", total / 60, total % 60);
}

std::string FormatBytes(int64_t bytes) {
  constexpr double kKiB = 1024;
  const double value = static_cast<double>(bytes);
  if (value >= kKiB * kKiB * kKiB) return absl::StrFormat("%.2f GiB", value / (kKiB * kKiB * kKiB));
  if (value >= kKiB * kKiB) return absl::StrFormat("%.1f MiB", value / (kKiB * kKiB));
  return absl::StrFormat("%.1f KiB", value / kKiB);
}

std::string FormatPreference(const std::optional<PreferenceStatistics>& preference) {
  if (!preference.has_value()) return "";
  std::string text = absl::StrFormat("  accuracy %.2f", preference->accuracy);
  if (!preference->has_chosen() || !preference->has_rejected()) return text;
  return absl::StrCat(absl::StrFormat("  margin %.3f", preference->margin()), text);
}

std::string FormatProgress(const ProgressOptions& options, const StepMetrics& metrics,
                           double seconds_left) {
  std::string line = absl::StrFormat("step %d/%d  loss %.4f  norm %.3f  lr %.2e  %s tok/s",
                                     metrics.step, options.steps, metrics.loss, metrics.grad_norm,
                                     metrics.lr, FormatRate(metrics.tokens_per_second));
  if (const std::optional<double> utilization = UtilizationOf(options, metrics)) {
    absl::StrAppendFormat(&line, "  GEMM util %.0f%%", 100 * *utilization);
  }
  absl::StrAppend(&line, FormatPreference(metrics.preference));
  if (metrics.skipped_steps > 0) absl::StrAppend(&line, "  skipped ", metrics.skipped_steps);
  if (metrics.loss_scale.has_value()) {
    absl::StrAppend(&line, "  scale ", absl::StrFormat("%g", *metrics.loss_scale));
  }
  if (metrics.saving.has_value()) {
    absl::StrAppendFormat(&line, "  saving %.0f%%", 100 * *metrics.saving);
  }
  absl::StrAppend(&line, "  mem ", FormatBytes(metrics.memory_peak_bytes), "/rank  left ",
                  FormatDuration(seconds_left));
  return line;
}

std::string FitToWidth(const std::string& line, int width) {
  return width > 0 ? line.substr(0, static_cast<size_t>(width)) : line;
}

Progress::Progress(const ProgressOptions& options)
    : options_(options), live_(TerminalWidth(options.out) > 0) {}

void Progress::Step(const StepMetrics& metrics, double seconds_left) {
  const double rate = metrics.tokens_per_second * options_.flops_per_token;
  if (options_.gemm_rate > 0 && rate > options_.gemm_rate) {
    if (!std::exchange(beaten_, true)) {
      Print(
          absl::StrFormat("note      step %d reached %.0f GFLOP/s, more than the %.0f measured for "
                          "matmuls: from here on GEMM util is relative to the fastest "
                          "step",
                          metrics.step, rate / 1e9, options_.gemm_rate / 1e9));
    }
    options_.gemm_rate = rate;
  }
  const std::string line = FormatProgress(options_, metrics, seconds_left);
  if (live_) {
    // A longer line would wrap, and the next one would be drawn below it instead of over it.
    shown_ = FitToWidth(line, TerminalWidth(options_.out) - 1);
    std::fprintf(options_.out, "\r%s\x1b[K", shown_.c_str());
  } else if (!started_ || metrics.step == options_.steps ||
             metrics.step % options_.log_every == 0) {
    std::fprintf(options_.out, "%s\n", line.c_str());
  }
  started_ = true;
  std::fflush(options_.out);
}

std::optional<double> Progress::Utilization(const StepMetrics& metrics) const {
  return UtilizationOf(options_, metrics);
}

void Progress::Print(const std::string& line) {
  if (!shown_.empty()) std::fprintf(options_.out, "\r\x1b[K");
  std::fprintf(options_.out, "%s\n", line.c_str());
  if (!shown_.empty()) std::fprintf(options_.out, "%s", shown_.c_str());
  std::fflush(options_.out);
}

void Progress::Finish() {
  if (!shown_.empty()) std::fprintf(options_.out, "\n");
  shown_.clear();
  std::fflush(options_.out);
}

}  // namespace zeroth
