// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_RUN_H_
#define ZEROTH_TRAIN_RUN_H_

#include "absl/status/status.h"

#include "zeroth/train/options.h"

namespace zeroth {

// Makes a whole training run: opens data and model, starts the ranks, trains, reports, and saves to
// options.out. Errors of options and files show before any rank starts. Prints to stdout.
absl::Status RunTraining(const TrainOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_RUN_H_
