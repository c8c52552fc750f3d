// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_RUN_H_
#define ZEROTH_TRAIN_RUN_H_

#include "absl/status/status.h"

#include "zeroth/train/options.h"

namespace zeroth {

// A whole training run: opens data and model, starts the ranks, trains, reports, saves to
// options.out. What is wrong with the options or the files shows before any rank starts. Prints to
// stdout.
absl::Status RunTraining(const TrainOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_RUN_H_
