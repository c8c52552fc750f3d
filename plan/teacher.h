// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>

#include "absl/status/statusor.h"

#include "zeroth/api/rank.h"
#include "zeroth/api/trainer.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/options/options.h"

namespace zeroth {

// Creates the trainer of the frozen model that --teacher names, as the run does, without its
// weights. `rank` and `timeline` outlive it. Reads the configuration and the header of the weights:
// errors of OpenModelFiles, ModelRegistry::Create and Trainer::Create, which begin with the flag.
absl::StatusOr<std::unique_ptr<Trainer>> PlanTeacher(Rank& rank, const TrainOptions& options,
                                                     Timeline* timeline);

}  // namespace zeroth
