// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One rank's share of the data movement of a collective over shared memory, done by `mover`. All
// ranks must be in the same call, and none may use its buffers for anything else before all have
// done their share.

#ifndef ZEROTH_CORE_COMM_LOCAL_LOCAL_COLLECTIVES_H_
#define ZEROTH_CORE_COMM_LOCAL_LOCAL_COLLECTIVES_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/local/local_mover.h"
#include "zeroth/core/comm/local/rendezvous.h"

namespace zeroth {

// Copies every rank's send into its place in this rank's recv.
absl::Status AllGatherShare(int rank, absl::Span<const LocalBuffers> ranks, LocalMover& mover);
// Reduces piece `rank` of everybody's send into this rank's recv.
absl::Status ReduceScatterShare(int rank, absl::Span<const LocalBuffers> ranks, ReduceOp op,
                                LocalMover& mover);
// Reduces one piece of everybody's recv in place and writes the result into all of them: nobody but
// this rank touches that piece, so no second pass is needed to hand results around.
absl::Status AllReduceShare(int rank, absl::Span<const LocalBuffers> ranks, ReduceOp op,
                            LocalMover& mover);
// Copies the root's send into this rank's recv; nothing to do for the root.
absl::Status AllToAllShare(int rank, absl::Span<const LocalBuffers> ranks, LocalMover& mover);
absl::Status BroadcastShare(int rank, absl::Span<const LocalBuffers> ranks, int root,
                            LocalMover& mover);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_LOCAL_LOCAL_COLLECTIVES_H_
