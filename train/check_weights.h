// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/train/new_token_rows.h"

namespace zeroth {

// Checks that the files have every weight of the model and nothing else. Adapters and the rows of
// new tokens may be missing, and with `makes_head` the head. Returns how many tensors of
// multi-token prediction (MTP) layers are ignored, since the model does not have them.
// InvalidArgument lists what is missing, unexpected or of another shape.
absl::StatusOr<int64_t> CheckWeights(const WeightsSource& weights, const LanguageModel& model,
                                     const NewTokenRows& grown, bool makes_head);

// A model with a tied head has no lm_head.weight, but its files may: then it must be the embedding,
// or the model that is trained would be another one than the files hold.
absl::Status CheckTiedHead(const WeightsSource& weights, const LanguageModel& model);

}  // namespace zeroth
