// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"

#include "zeroth/options/options.h"

namespace zeroth {

// Checks the options of the groups "Preferences" and "Distillation" against each other and against
// all others. InvalidArgument names the flags that do not fit, and says what to do.
absl::Status CheckObjective(const TrainOptions& options);

}  // namespace zeroth
