// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The back end "mpi": ranks are processes on one machine or many, started by mpirun, mpiexec or
// srun, and communicate between host memories. A program starts without MPI; the library is loaded
// when a rank runs (mpi_library.h).

#pragma once

#include "absl/status/status.h"

#include "zeroth/core/comm/launcher.h"

namespace zeroth {

// Runs `rank_main` as this process's rank in MPI. The result is the same on all ranks. Reductions
// have the bits of every other back end.
//
// May be called again, also after an error, unless a process was lost or MPI itself failed: then
// every later call returns that error. MPI is finalized when the program ends, which each rank
// delays until all ranks end.
//
// FailedPrecondition: there is no MPI library, or it is not the launcher's. InvalidArgument: the
// options do not fit. Otherwise the errors of communicator.h.
absl::Status RunMpiRank(const LaunchOptions& options, const RankMain& rank_main);

}  // namespace zeroth
