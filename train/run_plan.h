// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Reports the planner's results on a run: before it starts, and after it ran out of memory.

#pragma once

#include <string>

#include "absl/status/status.h"

#include "zeroth/train/model_source.h"
#include "zeroth/train/run_spec.h"

namespace zeroth {

// Prints the plan of the run (--dry_run), once for all processes of a run.
absl::Status PrintPlan(const RunSpec& spec, const ModelSource& source);

// Returns a warning if, by its plan, a run on CPUs needs more memory than is free here. The system
// would kill it silently. Empty if it does not, if another process of this machine warns, and for
// optimizers of other projects.
std::string MemoryWarning(const RunSpec& spec, const ModelSource& source);

// True for the error of a run that ran out of memory.
bool LacksMemory(const absl::Status& status);
// Prints the error, in case somebody interrupts the search, and returns lines that name the changes
// with which the run would fit, as //tools/plan finds them. Takes at most 15 seconds: the processes
// of other ranks wait for half a minute.
std::string Remedies(const RunSpec& spec, const ModelSource& source, const absl::Status& lacking);

}  // namespace zeroth
