// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_TRAINER_COUNTS_H_
#define ZEROTH_TRAIN_TRAINER_COUNTS_H_

#include <cstdint>
#include <optional>

#include "zeroth/optim/loss_scaler.h"
#include "zeroth/optim/outlier_detector.h"

namespace zeroth {

// What later steps of a trainer depend on besides its tensors: the same on every rank, and what a
// checkpoint keeps of it.
struct TrainerCounts {
  int64_t optimizer_steps = 0;  // those that count for the moments' corrections
  int64_t ema_updates = 0;      // 0 without an average
  std::optional<LossScaler::State> loss_scaler;
  OutlierDetector::State losses;
  OutlierDetector::State grad_norms;
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_TRAINER_COUNTS_H_
