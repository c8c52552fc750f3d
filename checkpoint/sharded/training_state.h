// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Between a rank's sharded training state and checkpoints.

#ifndef ZEROTH_CHECKPOINT_SHARDED_TRAINING_STATE_H_
#define ZEROTH_CHECKPOINT_SHARDED_TRAINING_STATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/checkpoint/sharded/shard_writer.h"
#include "zeroth/optim/adamw.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// The pieces of parameters and optimizer state that this rank is to write, as views: over all ranks
// of the mesh they tile every state. What several ranks hold is divided evenly among them, so that
// it is written once and by all. Between steps only.
std::vector<StatePiece> OwnedPieces(Sharding& sharding, const AdamW& optimizer);

struct LoadStateOptions {
  // If given, a model and a checkpoint that differ are no error: parameters that the checkpoint
  // lacks, or has in another shape, take their values from here and begin without moments; those
  // that only the checkpoint has are left out.
  ParameterReader fill_missing;
};

// Fills this rank's shards and moments, reading only their ranges. Whatever wrote the checkpoint,
// values are the same; they are rounded where this optimizer keeps moments in a smaller type than
// the checkpoint's, and only there. Moments of which the checkpoint has none (the parameter was
// frozen) are zero. Returns what was filled in or left out, one line each. FailedPrecondition lists
// the parameters that are missing, unexpected or of another shape, before anything is changed.
// DataLoss: the checkpoint is damaged, see CheckpointReader; the state is then part old, part new,
// and another must be loaded. Talks to no other rank: agree on the status.
absl::StatusOr<std::vector<std::string>> LoadState(CheckpointReader& reader, Sharding& sharding,
                                                   AdamW& optimizer,
                                                   const LoadStateOptions& options = {});

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_SHARDED_TRAINING_STATE_H_
