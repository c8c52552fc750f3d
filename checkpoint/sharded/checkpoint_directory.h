// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The directory that the checkpoints of a run lie in, and what happens to old ones. Nothing here
// talks to other ranks: one of them does it for all.

#ifndef ZEROTH_CHECKPOINT_SHARDED_CHECKPOINT_DIRECTORY_H_
#define ZEROTH_CHECKPOINT_SHARDED_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// "step-00000120", and the step of such a name; nothing for any other name.
std::string CheckpointName(int64_t step);
std::optional<int64_t> ParseCheckpointName(absl::string_view name);
// "<directory>/step-00000120".
std::string CheckpointPath(const std::string& directory, int64_t step);
// What a checkpoint is called while it is being written.
std::string UnfinishedCheckpointPath(const std::string& directory, int64_t step);

// Steps of the checkpoints under `directory`, ascending. They have been completed, though something
// may have happened to them since. A directory that does not exist has none.
absl::StatusOr<std::vector<int64_t>> ListCheckpoints(const std::string& directory);

struct RetentionOptions {
  // The newest ones to keep; 0: all.
  int64_t keep_last = 2;
  // Moreover those whose step is a multiple of this; 0: none.
  int64_t keep_every = 0;
};
// InvalidArgument if one is negative.
absl::Status ValidateRetention(const RetentionOptions& options);
// Those of `steps` (ascending) that may go once all of them are complete.
std::vector<int64_t> SuperfluousCheckpoints(const std::vector<int64_t>& steps,
                                            const RetentionOptions& options);

// Removes a checkpoint. It loses its name first, so that what a crash leaves behind is never taken
// for a checkpoint.
absl::Status DeleteCheckpoint(const std::string& directory, int64_t step);
// Renames a checkpoint to what ListCheckpoints does not see; returns the new path.
absl::StatusOr<std::string> SetCheckpointAside(const std::string& directory, int64_t step);
// Names of those that were set aside, by step. They count in retention, by themselves: all but the
// newest keep_last are deleted, and their names returned.
absl::StatusOr<std::vector<std::string>> ListSetAside(const std::string& directory);
absl::StatusOr<std::vector<std::string>> DeleteSuperfluousSetAside(const std::string& directory,
                                                                   const RetentionOptions& options);
// Removes what crashes have left behind: checkpoints that were never finished, or are half deleted.
// Not while one is being written.
absl::Status RemoveCheckpointLeftovers(const std::string& directory);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_SHARDED_CHECKPOINT_DIRECTORY_H_
