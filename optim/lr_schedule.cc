// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/lr_schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/registry.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr double kPi = 3.14159265358979323846;

using Shapes = Registry<LrSchedule, LrSchedule::Shape>;

// Returns how far the run is between its warm-up and its end, from 0 to 1.
double Progress(int64_t step, const LrScheduleOptions& options) {
  const int64_t length = options.total_steps - options.warmup_steps;
  if (length <= 0) return 1.0;
  return std::min(1.0,
                  static_cast<double>(step - options.warmup_steps) / static_cast<double>(length));
}

// Interpolates from min_lr at height 0 to lr at height 1.
double Between(const LrScheduleOptions& options, double height) {
  return options.min_lr + (options.lr - options.min_lr) * height;
}

const LrScheduleRegistration kConstant("constant", [](int64_t, const LrScheduleOptions& options) {
  return options.lr;
});
const LrScheduleRegistration kLinear("linear", [](int64_t step, const LrScheduleOptions& options) {
  return Between(options, 1.0 - Progress(step, options));
});
const LrScheduleRegistration kCosine("cosine", [](int64_t step, const LrScheduleOptions& options) {
  return Between(options, 0.5 * (1.0 + std::cos(kPi * Progress(step, options))));
});
const LrScheduleRegistration kWsd("wsd", [](int64_t step, const LrScheduleOptions& options) {
  const double decay = options.decay_ratio * static_cast<double>(options.total_steps);
  const double left = static_cast<double>(options.total_steps - step);
  return left >= decay ? options.lr : Between(options, std::max(0.0, left / decay));
});

bool IsRate(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

double DecimalTenth(double value) {
  char text[2 * std::numeric_limits<double>::max_exponent10];  // digits without an exponent
  char* const end = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed).ptr;
  double tenth = 0;
  ZEROTH_CHECK(absl::SimpleAtod(absl::StrCat(absl::string_view(text, end - text), "e-1"), &tenth));
  return tenth;
}

LrScheduleRegistration::LrScheduleRegistration(absl::string_view name, LrSchedule::Shape shape) {
  Shapes::Global().Add(name, std::move(shape));
}

std::vector<std::string> LrSchedule::Names() { return Shapes::Global().Names(); }

absl::Status LrSchedule::Check(absl::string_view name) {
  if (Shapes::Global().Find(name).has_value()) return absl::OkStatus();
  return InvalidArgument("unknown learning-rate schedule '", name, "'",
                         Shapes::Global().Instead(name));
}

absl::StatusOr<LrSchedule> LrSchedule::Create(absl::string_view name,
                                              const LrScheduleOptions& options) {
  ZEROTH_RETURN_IF_ERROR(Check(name));
  if (!IsRate(options.lr) || !IsRate(options.min_lr)) {
    return InvalidArgument("learning-rate schedule: lr = ", options.lr,
                           " and min_lr = ", options.min_lr,
                           ", expected finite numbers of at least 0");
  }
  if (options.warmup_steps < 0 || options.total_steps < 0) {
    return InvalidArgument("learning-rate schedule: ", options.warmup_steps, " warm-up steps of ",
                           options.total_steps, ", expected at least 0 each");
  }
  if (!(options.decay_ratio > 0 && options.decay_ratio <= 1)) {
    return InvalidArgument("learning-rate schedule: decay_ratio = ", options.decay_ratio,
                           ", expected above 0 and at most 1");
  }
  return LrSchedule(*Shapes::Global().Find(name), options);
}

double LrSchedule::At(int64_t step) const {
  if (step < options_.warmup_steps) {
    return options_.lr * static_cast<double>(step + 1) / static_cast<double>(options_.warmup_steps);
  }
  return shape_(step, options_);
}

}  // namespace zeroth
