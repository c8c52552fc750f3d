// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_DIVIDED_MODEL_H_
#define ZEROTH_TRAIN_DIVIDED_MODEL_H_

#include "absl/status/status.h"

#include "zeroth/api/rank.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/train/trainer.h"

namespace zeroth {

// Leaves to `model` what of it is this rank's, by options.tensor; before its parameters join units.
// InvalidArgument and Unimplemented say what cannot be divided, or does not go with it.
absl::Status DivideForTraining(LanguageModel& model, Rank& rank, const TrainerOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_DIVIDED_MODEL_H_
