// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The data movement of collectives in messages between host memories. All ranks of the channel must
// have agreed on the call.

#ifndef ZEROTH_CORE_COMM_MPI_MPI_COLLECTIVES_H_
#define ZEROTH_CORE_COMM_MPI_MPI_COLLECTIVES_H_

#include <cstddef>

#include "absl/status/status.h"

#include "zeroth/core/comm/collective_call.h"
#include "zeroth/core/comm/mpi/mpi_channel.h"

namespace zeroth::mpi {

// `collective` must have passed the checks of collective_checks.h. Bytes that MoveData needs beside
// the buffers, on a channel of `size` ranks.
size_t ScratchBytes(const Collective& collective, int size);

// Each byte of an all-gather, and of an all-to-all, goes straight to its place. A broadcast goes
// down a binomial tree. Reductions send the pieces all-to-all in blocks and add them along the
// fixed tree of communicator.h: while one block is added, the next one is under way.
absl::Status MoveData(const Collective& collective, Channel& channel, char* scratch);

}  // namespace zeroth::mpi

#endif  // ZEROTH_CORE_COMM_MPI_MPI_COLLECTIVES_H_
