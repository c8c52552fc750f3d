// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Moves a rank's training state into checkpoints and out of them. Loading reshards it: each rank
// reads ranges of its shards, whatever world size and strategy wrote the checkpoint, and gets from
// its replicas what they have read (ReplicaSlices).

#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/checkpoint/sharded/shard_writer.h"
#include "zeroth/optim/shard_state.h"
#include "zeroth/strategies/shard_layout.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// Returns the pieces of parameters and of `states` (an optimizer's, an average's) that this rank
// writes, as views. Over all ranks of the mesh they tile every state. Elements that several ranks
// hold are divided evenly among them, so that each is written once. Call between steps only.
std::vector<StatePiece> OwnedPieces(Sharding& sharding, absl::Span<const ShardState> states);

// Translates `piece` of this rank's part of a parameter into elements of the whole parameter. A
// parameter without elements has a piece, too.
std::vector<ShardLayout::Piece> GlobalPieces(const Parameter& parameter,
                                             const ShardLayout::Piece& piece);

// Translates `part` of a parameter into elements of a state that has one for each block. `part`
// begins and ends with a block; shard_offset of the result is the place in the state's shard.
ShardLayout::Piece InBlocks(const ShardLayout::Piece& part, const ShardState& state);

struct LoadStateOptions {
  // If given, the model and the checkpoint may differ. Parameters that the checkpoint lacks, or has
  // in another shape, take their values from here, and their other states are zero. Parameters that
  // only the checkpoint has are left out.
  ParameterReader fill_missing;
};

struct LoadedState {
  // One line for each parameter that was filled in or left out.
  std::vector<std::string> notes;
  // Names of states that the checkpoint lacks for some parameter that has them here, because the
  // parameter was frozen or the run did not keep them. They are zero there.
  std::set<std::string> incomplete;
};

// Fills this rank's shards and `states`, reading only their ranges, and each of these on one
// replica only. Values do not depend on the layout that wrote the checkpoint. They are rounded to
// nearest only where the run keeps them in a smaller floating-point type. A state with a
// StateCoding is encoded to 8-bit codes, or decoded, as needed. Collective: all ranks of the mesh
// call it with a reader of the same checkpoint, and get the same status.
//
// FailedPrecondition, before anything is changed: names a unit that is within a step, lists the
// parameters that are missing, unexpected or of another shape, or names the first state that cannot
// be converted (codes in blocks of another size). DataLoss: the checkpoint is damaged, see
// CheckpointReader; the state is then part old, part new, and another checkpoint must be loaded.
absl::StatusOr<LoadedState> LoadState(CheckpointReader& reader, Sharding& sharding,
                                      absl::Span<const ShardState> states,
                                      const LoadStateOptions& options = {});

}  // namespace zeroth
