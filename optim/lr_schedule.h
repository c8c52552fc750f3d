// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace zeroth {

// Returns the double nearest to a tenth of `value` as it is written in decimal: 0.0003 for 0.003,
// where 0.003 / 10 is 0.00030000000000000003. `value` must be finite.
double DecimalTenth(double value);

enum class LrScheduleKind : uint8_t { kConstant, kLinear, kCosine };

struct LrScheduleOptions {
  double lr = 0;             // the peak
  double min_lr = 0;         // at the end of linear and cosine
  int64_t warmup_steps = 0;  // before the peak
  int64_t total_steps = 0;   // of the whole run
};

// The learning rate as a function of the step, from 0. Warm-up: lr * (step + 1) / warmup_steps.
// After it
//   constant  lr
//   linear    from lr down to min_lr at total_steps
//   cosine    the same along half a cosine (Loshchilov and Hutter, "SGDR", 2017)
// Beyond total_steps the last value stays. A value type.
class LrSchedule {
 public:
  // InvalidArgument says which option is out of its range.
  static absl::StatusOr<LrSchedule> Create(LrScheduleKind kind, const LrScheduleOptions& options);

  double At(int64_t step) const;

 private:
  LrSchedule(LrScheduleKind kind, const LrScheduleOptions& options)
      : kind_(kind), options_(options) {}

  LrScheduleKind kind_;
  LrScheduleOptions options_;
};

}  // namespace zeroth
