// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The directory of a run's checkpoints, and the retention of old ones. Nothing here talks to other
// ranks: one rank calls these functions for all.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// "step-00000120", and the step of such a name; empty for any other name.
std::string CheckpointName(int64_t step);
std::optional<int64_t> ParseCheckpointName(absl::string_view name);
// "<directory>/step-00000120".
std::string CheckpointPath(const std::string& directory, int64_t step);
// The path of a checkpoint while it is being written.
std::string UnfinishedCheckpointPath(const std::string& directory, int64_t step);

// Lists the steps of the completed checkpoints under `directory`, ascending. They may have been
// damaged later. A directory that does not exist has none.
absl::StatusOr<std::vector<int64_t>> ListCheckpoints(const std::string& directory);

struct RetentionOptions {
  // Number of newest checkpoints to keep; 0: all.
  int64_t keep_last = 2;
  // Keep checkpoints whose step is a multiple of this, too; 0: none.
  int64_t keep_every = 0;
};
// InvalidArgument if an option is negative.
absl::Status ValidateRetention(const RetentionOptions& options);
// Returns those of `steps` (ascending, all complete) that the options do not keep.
std::vector<int64_t> SuperfluousCheckpoints(const std::vector<int64_t>& steps,
                                            const RetentionOptions& options);

// Removes a checkpoint. Renames it first, so that a crash never leaves part of a checkpoint under
// its name.
absl::Status DeleteCheckpoint(const std::string& directory, int64_t step);
// Renames a checkpoint so that ListCheckpoints does not see it. Returns the new path.
absl::StatusOr<std::string> SetCheckpointAside(const std::string& directory, int64_t step);
// Lists the names of checkpoints that were set aside, by step.
absl::StatusOr<std::vector<std::string>> ListSetAside(const std::string& directory);
// Deletes all of these except the newest keep_last. Returns the names of those deleted.
absl::StatusOr<std::vector<std::string>> DeleteSuperfluousSetAside(const std::string& directory,
                                                                   const RetentionOptions& options);
// Removes checkpoints that crashes left unfinished or half deleted. Must not run while a checkpoint
// is being written.
absl::Status RemoveCheckpointLeftovers(const std::string& directory);

}  // namespace zeroth
