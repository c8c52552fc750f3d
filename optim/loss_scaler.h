// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroth {

// Scales are powers of two, so that scaling and unscaling round nothing.
struct LossScalerOptions {
  double initial_scale = 65536;
  // False: the scale stays, and the caller decides what an overflow means.
  bool dynamic = true;
  int64_t growth_interval = 2000;  // consecutive finite steps before the scale doubles
  double min_scale = 1;            // an overflow at this scale is an error of the gradients
  double max_scale = 16777216;     // 2^24
};

// InvalidArgument names the field, its value and what is allowed.
absl::Status ValidateLossScalerOptions(const LossScalerOptions& options);

// Dynamic loss scaling for fp16, in which small gradients would become zero ("Mixed precision
// training", Micikevicius et al., 2018). The loss is multiplied by scale(), and the optimizer
// divides gradients by it. An overflow halves the scale, and its step is skipped; growth_interval
// steps without an overflow double it, as in torch's GradScaler and DeepSpeed. The decision follows
// from the norm of the reduced gradients, which has the same bits on every rank, so all ranks'
// scalers agree without communication. Not thread-safe.
class LossScaler {
 public:
  // The state that a checkpoint keeps.
  struct State {
    double scale = 1;
    int64_t finite_steps = 0;  // consecutive, since the scale changed
  };

  static absl::StatusOr<LossScaler> Create(const LossScalerOptions& options);

  double scale() const { return state_.scale; }
  // Call it after each step with whether the norm of the gradients was finite. Returns false if it
  // was not and the scale cannot go lower: then the gradients themselves are not finite.
  bool Update(bool finite);

  const State& state() const { return state_; }
  // InvalidArgument if no scaler with these options could be in that state.
  absl::Status Restore(const State& state);

 private:
  explicit LossScaler(const LossScalerOptions& options) : options_(options) {
    state_.scale = options.initial_scale;
  }

  LossScalerOptions options_;
  State state_;
};

}  // namespace zeroth
