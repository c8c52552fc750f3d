// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/loss_scaler.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

absl::Status ExpectPowerOfTwo(const char* field, double value) {
  int exponent = 0;
  if (std::isfinite(value) && value > 0 && std::frexp(value, &exponent) == 0.5) {
    return absl::OkStatus();
  }
  return InvalidArgument("loss scaler: ", field, " is ", value,
                         ", expected a power of two, which rounds nothing");
}

}  // namespace

absl::Status ValidateLossScalerOptions(const LossScalerOptions& options) {
  ZEROTH_RETURN_IF_ERROR(ExpectPowerOfTwo("initial_scale", options.initial_scale));
  ZEROTH_RETURN_IF_ERROR(ExpectPowerOfTwo("min_scale", options.min_scale));
  ZEROTH_RETURN_IF_ERROR(ExpectPowerOfTwo("max_scale", options.max_scale));
  if (options.initial_scale < options.min_scale || options.initial_scale > options.max_scale) {
    return InvalidArgument("loss scaler: initial_scale is ", options.initial_scale,
                           ", expected from min_scale ", options.min_scale, " to max_scale ",
                           options.max_scale);
  }
  if (options.growth_interval < 1) {
    return InvalidArgument("loss scaler: growth_interval is ", options.growth_interval,
                           ", expected at least 1 step");
  }
  return absl::OkStatus();
}

absl::StatusOr<LossScaler> LossScaler::Create(const LossScalerOptions& options) {
  ZEROTH_RETURN_IF_ERROR(ValidateLossScalerOptions(options));
  return LossScaler(options);
}

bool LossScaler::Update(bool finite) {
  if (!options_.dynamic) return finite;
  if (!finite) {
    const bool can_fall = state_.scale > options_.min_scale;
    if (can_fall) state_.scale /= 2;
    state_.finite_steps = 0;
    return can_fall;
  }
  if (++state_.finite_steps < options_.growth_interval) return true;
  state_.scale = std::min(state_.scale * 2, options_.max_scale);
  state_.finite_steps = 0;
  return true;
}

absl::Status LossScaler::Restore(const State& state) {
  ZEROTH_RETURN_IF_ERROR(ExpectPowerOfTwo("the restored scale", state.scale));
  const bool fits = options_.dynamic
                        ? state.scale >= options_.min_scale && state.scale <= options_.max_scale
                        : state.scale == options_.initial_scale;
  if (!fits) {
    return InvalidArgument(
        "loss scaler: the restored scale is ", state.scale, ", expected ",
        options_.dynamic ? absl::StrCat("from ", options_.min_scale, " to ", options_.max_scale)
                         : absl::StrCat(options_.initial_scale, ", which stays"),
        "; ask for another loss scale, and the restored one is left aside");
  }
  if (state.finite_steps < 0) {
    return InvalidArgument("loss scaler: ", state.finite_steps,
                           " restored finite steps, expected none or more");
  }
  state_ = state;
  return absl::OkStatus();
}

}  // namespace zeroth
