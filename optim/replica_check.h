// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Whether ranks that have to hold the same bits do: what memory or a link has changed in silence is
// found here, before it is saved.

#ifndef ZEROTH_OPTIM_REPLICA_CHECK_H_
#define ZEROTH_OPTIM_REPLICA_CHECK_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/optim/shard_state.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// Compares 64-bit hashes of every segment's parameters and of `states` (an optimizer's, an
// average's) between the ranks that hold the same elements, and gathers unit after unit to compare
// what each rank has then. DataLoss, the same on every rank, names the unit, what of it differs,
// and the ranks: those that are fewer, where most agree. Collective, between steps; nothing is
// changed. Costs a gather of every unit, and one reading of each rank's state, which a GPU copies
// to the host in pieces; nothing in a world of one rank.
absl::Status CheckReplicas(Sharding& sharding, absl::Span<const ShardState> states);

}  // namespace zeroth

#endif  // ZEROTH_OPTIM_REPLICA_CHECK_H_
