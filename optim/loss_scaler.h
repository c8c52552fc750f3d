// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_OPTIM_LOSS_SCALER_H_
#define ZEROTH_OPTIM_LOSS_SCALER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroth {

// Scales are powers of two, so that scaling and unscaling round nothing.
struct LossScalerOptions {
  double initial_scale = 65536;
  // False: the scale stays, and an overflow is the caller's to judge.
  bool dynamic = true;
  int64_t growth_interval = 2000;  // finite steps in a row before the scale doubles
  double min_scale = 1;            // below, an overflow is no longer the scale's fault
  double max_scale = 16777216;     // 2^24
};

// InvalidArgument names the field, its value and what is allowed.
absl::Status ValidateLossScalerOptions(const LossScalerOptions& options);

// Dynamic loss scaling for fp16, whose smallest numbers gradients would fall below ("Mixed
// precision training", Micikevicius et al., 2018): the loss is multiplied by scale(), gradients are
// divided by it where the optimizer reads them. An overflow halves the scale and costs its step;
// growth_interval steps without one double it, as torch's GradScaler and DeepSpeed do. The decision
// is made from the norm of the reduced gradients, which has the same bits on every rank, so all
// scalers of a run agree without a word. Not thread-safe.
class LossScaler {
 public:
  // What a checkpoint keeps.
  struct State {
    double scale = 1;
    int64_t finite_steps = 0;  // in a row since the scale changed
  };

  static absl::StatusOr<LossScaler> Create(const LossScalerOptions& options);

  double scale() const { return state_.scale; }
  // After each step: whether the norm of its gradients was finite. False if it was not and the
  // scale cannot go lower: then the gradients themselves are not finite.
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

#endif  // ZEROTH_OPTIM_LOSS_SCALER_H_
