// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One rank's share of the data movement of a collective over shared memory, done by `mover`. All
// ranks must be in the same call, and none may use its buffers for anything else before all have
// done their share.

#ifndef ZEROTH_CORE_COMM_LOCAL_LOCAL_COLLECTIVES_H_
#define ZEROTH_CORE_COMM_LOCAL_LOCAL_COLLECTIVES_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/collective_call.h"
#include "zeroth/core/comm/local/local_mover.h"
#include "zeroth/core/comm/local/rendezvous.h"

namespace zeroth {

absl::Status MoveShare(const Collective& collective, int rank, absl::Span<const LocalBuffers> ranks,
                       LocalMover& mover);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_LOCAL_LOCAL_COLLECTIVES_H_
