// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Checks that ranks which must hold the same bits do hold them. Finds silent corruption by memory
// or a link before it is saved.

#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/optim/shard_state.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// Compares 64-bit hashes of every segment's parameters and of `states` (an optimizer's, an
// average's) between the ranks that hold the same elements. Then gathers unit after unit, and
// compares the gathered parameters. DataLoss, the same on every rank, names the unit, what differs,
// and the ranks that differ from the majority, if there is one. Collective, between steps; changes
// nothing. Costs a gather of every unit and one reading of each rank's state, which a GPU copies to
// the host in pieces. Does nothing in a world of one rank.
absl::Status CheckReplicas(Sharding& sharding, absl::Span<const ShardState> states);

}  // namespace zeroth
