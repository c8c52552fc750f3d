// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The main header, for programs that train under a sharding strategy.

#pragma once

#include "zeroth/api/rank.h"                 // IWYU pragma: export
#include "zeroth/api/sharded_module.h"       // IWYU pragma: export
#include "zeroth/api/training_step.h"        // IWYU pragma: export
#include "zeroth/core/base/status_macros.h"  // IWYU pragma: export
#include "zeroth/core/tensor/tensor.h"       // IWYU pragma: export
#include "zeroth/nn/module.h"                // IWYU pragma: export
#include "zeroth/optim/adamw.h"              // IWYU pragma: export
