// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Between a rank's sharded training state and checkpoints.

#ifndef ZEROTH_CHECKPOINT_SHARDED_TRAINING_STATE_H_
#define ZEROTH_CHECKPOINT_SHARDED_TRAINING_STATE_H_

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

// The pieces of parameters and of `states` (an optimizer's, an average's) that this rank is to
// write, as views: over all ranks of the mesh they tile every state. What several ranks hold is
// divided evenly among them, so that it is written once and by all. Between steps only.
std::vector<StatePiece> OwnedPieces(Sharding& sharding, absl::Span<const ShardState> states);

// `piece` of what is here of a parameter, in elements of the undivided one; a parameter without
// elements has a piece, too.
std::vector<ShardLayout::Piece> GlobalPieces(const Parameter& parameter,
                                             const ShardLayout::Piece& piece);

// The elements of a state for those of a parameter: `part` in units of `block`, which is cut by it.
ShardLayout::Piece InBlocks(const ShardLayout::Piece& part, int64_t block);

struct LoadStateOptions {
  // If given, a model and a checkpoint that differ are no error: parameters that the checkpoint
  // lacks, or has in another shape, take their values from here and begin without further state;
  // those that only the checkpoint has are left out.
  ParameterReader fill_missing;
};

struct LoadedState {
  // What was filled in or left out, one line each.
  std::vector<std::string> notes;
  // Names of states that the checkpoint does not have of every parameter that has them here; they
  // are zero where it does not (the parameter was frozen, nothing of the kind was kept).
  std::set<std::string> incomplete;
};

// Fills this rank's shards and `states`, reading only their ranges. Whatever wrote the checkpoint,
// values are the same; they are rounded to nearest where they are kept in a smaller floating-point
// type here than there, and only there. The result and the order of errors depend on nothing that
// ranks differ in, but for damage. A state with a StateCoding becomes 8-bit codes, rounded to
// nearest block by block, or numbers from such. Errors, before anything is changed:
// FailedPrecondition lists the parameters that are missing, unexpected or of another shape, or the
// first state that does not become what is kept here: codes in blocks of another size. DataLoss:
// the checkpoint is damaged, see CheckpointReader; the state is then part old, part new, and
// another must be loaded. Talks to no other rank: agree on the status.
absl::StatusOr<LoadedState> LoadState(CheckpointReader& reader, Sharding& sharding,
                                      absl::Span<const ShardState> states,
                                      const LoadStateOptions& options = {});

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_SHARDED_TRAINING_STATE_H_
