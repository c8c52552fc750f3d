// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The back end "nccl": ranks are processes, one per GPU, on one machine or many.
//
// A launcher starts the processes (torchrun, mpirun, srun: process/process_environment.h). They
// meet at rank 0 over TCP. Calls of NCCL are non-blocking. Beside NCCL, ranks compare their calls
// (process/process_world.h), so that a mismatch, which would hang in NCCL, is an error that says
// which rank called what. Reductions have the bits of the local back end
// (LaunchOptions::reduction). Gathers may use copy engines, in registered memory
// (LaunchOptions::nccl_copy_engine).

#pragma once

#include "absl/status/status.h"

#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/process/process_environment.h"

namespace zeroth {

// Runs `rank_main` once, as the rank that `environment` names, with a GPU that no other process
// uses. Returns when all ranks have returned, with the same result on all (see Launcher).
// InvalidArgument if options.world_size is neither 0 nor the environment's. FailedPrecondition if
// this node has fewer GPUs than processes.
absl::Status RunNcclRank(const ProcessEnvironment& environment, const LaunchOptions& options,
                         const RankMain& rank_main);

}  // namespace zeroth
