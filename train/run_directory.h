// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The directory of a run: which one it is, and that no two runs share one by accident.

#ifndef ZEROTH_TRAIN_RUN_DIRECTORY_H_
#define ZEROTH_TRAIN_RUN_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/train/options.h"

namespace zeroth {

// Where runs without --out have their directories: run-1, run-2, ..., and a link to the newest.
inline constexpr char kRunsDirectory[] = "zeroth_out";
inline constexpr char kLatestRun[] = "latest";

// --out as far as it is known before the run begins: what the flag says; with --resume=auto and no
// flag, the run that kRunsDirectory/latest points to; otherwise empty: NewRunDirectory is to make
// one. The same in all processes of a run. Errors of the file system.
absl::StatusOr<std::string> KnownRunDirectory(const TrainOptions& options);

// Makes the next kRunsDirectory/run-N, which no other process gets. By one process of a run. Errors
// of the file system advise to give --out.
absl::StatusOr<std::string> NewRunDirectory();

// Points kRunsDirectory/latest to `out`, if that is one of NewRunDirectory's.
absl::Status PointLatestTo(const std::string& out);

// Creates options.out, unless it is there. FailedPrecondition if an earlier run has left something
// in it and the options neither go on from that nor say --overwrite; InvalidArgument if the run
// would replace the model that it starts from. Both say what may be done instead.
absl::Status CheckRunDirectory(const TrainOptions& options);

// Removes what runs write from `directory`: metrics, checkpoints and models. Whatever else is there
// stays.
absl::Status RemoveEarlierRun(const std::string& directory);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_RUN_DIRECTORY_H_
