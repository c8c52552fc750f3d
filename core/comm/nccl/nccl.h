// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Ranks as processes, one per GPU, on one machine or many, that talk by NCCL. Registered as "nccl".
//
// Another program starts the processes (torchrun, mpirun, srun: process/process_environment.h);
// they meet at rank 0 by TCP. Calls are non-blocking; an account of them is kept beside the library
// (process/process_world.h), so that what would hang in it is an error that says who called what.
// Reductions have the bits of the local back end (LaunchOptions::reduction); gathers may go by copy
// engine, in memory that is registered (LaunchOptions::nccl_copy_engine).

#ifndef ZEROTH_CORE_COMM_NCCL_NCCL_H_
#define ZEROTH_CORE_COMM_NCCL_NCCL_H_

#include "absl/status/status.h"

#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/process/process_environment.h"

namespace zeroth {

// Runs `rank_main` once, as the rank that `environment` says, with a GPU that is this process's
// alone. Returns when all ranks have returned; the same on all (see Launcher).
// InvalidArgument if options.world_size is neither 0 nor the environment's; FailedPrecondition if
// this node has fewer GPUs than processes.
absl::Status RunNcclRank(const ProcessEnvironment& environment, const LaunchOptions& options,
                         const RankMain& rank_main);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_NCCL_NCCL_H_
