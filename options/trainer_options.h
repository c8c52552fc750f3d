// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "zeroth/api/trainer.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/options/options.h"

namespace zeroth {

// The options of a rank's trainer, which records into `timeline` unless it is nullptr. Validate
// must have checked `options`.
TrainerOptions TrainerOptionsFor(const TrainOptions& options, Timeline* timeline);

}  // namespace zeroth
