// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs of the trainer whose optimizer fails as ZEROTH_FAULT says (faulty_adamw.cc).

#pragma once

#include <string>

#include "zeroth/core/comm/mpi/testing/mpirun.h"
#include "zeroth/tests/cli/trainer_process.h"

namespace zeroth::testing {

inline constexpr char kFaultyTrainer[] = "tests/faults/faulty_train";

Outcome ByThreads(int ranks, const Flags& flags, const std::string& fault);
MpirunOutcome ByProcesses(int ranks, const Flags& flags, const std::string& fault);

}  // namespace zeroth::testing
