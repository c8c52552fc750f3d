// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/lr_schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr double kPi = 3.14159265358979323846;

bool IsRate(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

double DecimalTenth(double value) {
  char text[2 * std::numeric_limits<double>::max_exponent10];  // digits without an exponent
  char* const end = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed).ptr;
  double tenth = 0;
  ZEROTH_CHECK(absl::SimpleAtod(absl::StrCat(absl::string_view(text, end - text), "e-1"), &tenth));
  return tenth;
}

absl::StatusOr<LrSchedule> LrSchedule::Create(LrScheduleKind kind,
                                              const LrScheduleOptions& options) {
  if (!IsRate(options.lr) || !IsRate(options.min_lr)) {
    return InvalidArgument("learning-rate schedule: lr = ", options.lr,
                           " and min_lr = ", options.min_lr,
                           ", expected finite numbers of at least 0");
  }
  if (options.warmup_steps < 0 || options.total_steps < 0) {
    return InvalidArgument("learning-rate schedule: ", options.warmup_steps, " warm-up steps of ",
                           options.total_steps, ", expected at least 0 each");
  }
  return LrSchedule(kind, options);
}

double LrSchedule::At(int64_t step) const {
  const double peak = options_.lr;
  if (step < options_.warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(options_.warmup_steps);
  }
  if (kind_ == LrScheduleKind::kConstant) return peak;
  const int64_t length = options_.total_steps - options_.warmup_steps;
  const double progress = length <= 0
                              ? 1.0
                              : std::min(1.0, static_cast<double>(step - options_.warmup_steps) /
                                                  static_cast<double>(length));
  const double left =
      kind_ == LrScheduleKind::kLinear ? 1.0 - progress : 0.5 * (1.0 + std::cos(kPi * progress));
  return options_.min_lr + (peak - options_.min_lr) * left;
}

}  // namespace zeroth
