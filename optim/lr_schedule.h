// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// Returns the double nearest to a tenth of `value` as it is written in decimal: 0.0003 for 0.003,
// where 0.003 / 10 is 0.00030000000000000003. `value` must be finite.
double DecimalTenth(double value);

struct LrScheduleOptions {
  double lr = 0;             // the peak
  double min_lr = 0;         // at total_steps
  int64_t warmup_steps = 0;  // before the peak
  int64_t total_steps = 0;   // of the run
  double decay_ratio = 0.1;  // wsd: the fraction of total_steps over which the rate falls
};

// The learning rate as a function of the step, from 0. Warm-up: lr * (step + 1) / warmup_steps.
// After it
//   constant  lr
//   linear    from lr down to min_lr at total_steps
//   cosine    the same along half a cosine (Loshchilov and Hutter, "SGDR", 2017)
//   wsd       lr, and over the last decay_ratio of the run linearly down to min_lr, called warm-up,
//             stable, decay (Hu et al., "MiniCPM", 2024)
// and any others that are registered. These four keep their last value beyond total_steps. A value
// type.
class LrSchedule {
 public:
  // Returns the rate of a step after the warm-up: finite and at least 0. A pure function.
  using Shape = std::function<double(int64_t step, const LrScheduleOptions& options)>;

  // InvalidArgument lists the names, or says which option is out of its range.
  static absl::StatusOr<LrSchedule> Create(absl::string_view name,
                                           const LrScheduleOptions& options);
  // InvalidArgument, as from Create, unless a schedule of this name is linked in.
  static absl::Status Check(absl::string_view name);
  // Returns the names that are linked in, sorted.
  static std::vector<std::string> Names();

  double At(int64_t step) const;

 private:
  LrSchedule(Shape shape, const LrScheduleOptions& options)
      : shape_(std::move(shape)), options_(options) {}

  Shape shape_;
  LrScheduleOptions options_;
};

// Put one at namespace scope in the schedule's .cc, in a target with alwayslink. A second
// registration of a name is a bug and aborts.
struct LrScheduleRegistration {
  LrScheduleRegistration(absl::string_view name, LrSchedule::Shape shape);
};

}  // namespace zeroth
