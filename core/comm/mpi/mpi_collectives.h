// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Moves the data of collectives by messages between host memories. All ranks of the channel must
// have agreed on the call.

#ifndef ZEROTH_CORE_COMM_MPI_MPI_COLLECTIVES_H_
#define ZEROTH_CORE_COMM_MPI_MPI_COLLECTIVES_H_

#include <cstddef>

#include "absl/status/status.h"

#include "zeroth/core/comm/collective_call.h"
#include "zeroth/core/comm/mpi/mpi_channel.h"

namespace zeroth::mpi {

// Returns the bytes of scratch that MoveData needs, on a channel of `size` ranks. `collective` must
// have passed the checks of collective_checks.h.
size_t ScratchBytes(const Collective& collective, int size);

// All-gathers and all-to-alls send each byte straight to its place. A broadcast uses a binomial
// tree. Reductions exchange pieces all-to-all in blocks, and add them in the fixed tree of
// communicator.h. While one block is added, the next one arrives.
absl::Status MoveData(const Collective& collective, Channel& channel, char* scratch);

}  // namespace zeroth::mpi

#endif  // ZEROTH_CORE_COMM_MPI_MPI_COLLECTIVES_H_
