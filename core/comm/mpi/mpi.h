// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The back end "mpi": processes on one machine or many, in host memory, started by mpirun, mpiexec
// or srun. A program needs no MPI to start; the library is loaded when a rank runs (mpi_library.h).

#ifndef ZEROTH_CORE_COMM_MPI_MPI_H_
#define ZEROTH_CORE_COMM_MPI_MPI_H_

#include "absl/status/status.h"

#include "zeroth/core/comm/launcher.h"

namespace zeroth {

// Runs `rank_main` as the rank that MPI says this process is. What it returns, all ranks return.
// Messages are as in communicator.h, the bits of reductions those of every back end.
//
// May be called again, also after an error, unless a process was lost or MPI itself failed: its
// error stays then. MPI ends with the program, for which each rank waits for all others.
//
// NotFound: there is no MPI. InvalidArgument, FailedPrecondition: what does not fit together.
// Otherwise the errors of communicator.h.
absl::Status RunMpiRank(const LaunchOptions& options, const RankMain& rank_main);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_MPI_MPI_H_
