// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "zeroth/api/trainer.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/mixture.h"

namespace zeroth {

// Returns the losses of the trainer's present weights at all targets of `data`, which are rows of
// preference pairs. `loader` says how this rank reads them. Ranks share the work, and each gets all
// losses: 4 bytes of host memory for each token. Calls `wants_to_stop` before each batch; once it
// is true on any rank, returns null on all ranks. Collective.
absl::StatusOr<std::shared_ptr<const ReferenceLosses>> ComputeReferenceLosses(
    Trainer& trainer, const Mixture& data, LoaderOptions loader,
    absl::FunctionRef<bool()> wants_to_stop);

}  // namespace zeroth
