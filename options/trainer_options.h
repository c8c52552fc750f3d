// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/api/trainer.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/options/options.h"

namespace zeroth {

// Checks the strategy's name, its sizes and quantized collectives, once the number of ranks is
// known. InvalidArgument names the flag, before any rank starts.
absl::Status CheckParallelism(const TrainOptions& options);

// Returns the options of a rank's trainer, which records into `timeline` unless it is nullptr.
// `options` must have passed Validate.
TrainerOptions TrainerOptionsFor(const TrainOptions& options, Timeline* timeline);
// Returns the options of a trainer beside that one, whose model is computed and not trained: `role`
// names it in timelines and messages ("teacher"). The caller freezes its parameters. Nothing
// updates its masters. So, where that changes no bit, they are stored in param_dtype, and are
// sharded inside shard groups even if the trainer's are sharded over all ranks.
TrainerOptions FrozenTrainerOptionsFor(const TrainOptions& options, absl::string_view role,
                                       Timeline* timeline);

}  // namespace zeroth
