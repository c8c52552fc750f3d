// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The directory of a run: its choice, and the lock that keeps two runs from sharing one.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/file/file_descriptor.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/options/options.h"

namespace zeroth {

// The parent directory of runs without --out: it has run-1, run-2, ..., and a link to the newest.
inline constexpr char kRunsDirectory[] = "zeroth_out";
inline constexpr char kLatestRun[] = "latest";

// Returns --out if it is set; with --resume=auto, the run that kRunsDirectory/latest points to; and
// otherwise an empty string, which means that NewRunDirectory must make a directory. The same in
// all processes of a run. Errors of the file system.
absl::StatusOr<std::string> KnownRunDirectory(const TrainOptions& options);

// Makes the next kRunsDirectory/run-N, which no other process gets. Call it in one process of a
// run. Errors of the file system advise to give --out.
absl::StatusOr<std::string> NewRunDirectory();

// Points kRunsDirectory/latest to `out`, if NewRunDirectory made `out`.
absl::Status UpdateLatestLink(const std::string& out);

// InvalidArgument if options.out, or else kRunsDirectory, lies in a directory of --data or
// --eval_data and would be read with it.
absl::Status CheckOutIsOutsideData(const TrainOptions& options);

// Creates `out`, the directory of the run, unless it exists. FailedPrecondition if it has files of
// an earlier run and the options neither resume that run nor say --overwrite; InvalidArgument if
// the run would replace the model that it starts from or compares with. Both errors say what can be
// done instead.
absl::Status CheckRunDirectory(const TrainOptions& options, const std::string& out);

// Deletes the output of runs from `directory`: metrics, checkpoints and models. Other files stay.
absl::Status RemoveEarlierRun(const std::string& directory);

// Marks a directory as in use by a live run, so that no other run deletes its unfinished files.
// Rank 0 locks the directory itself (flock), until it closes the descriptor that it gets; the lock
// always ends with the process. Collective. The directory must exist. FailedPrecondition on every
// rank if another run has the lock. On file systems that cannot lock directories (NFS) this always
// succeeds and protects nothing.
absl::StatusOr<FileDescriptor> LockRunDirectory(const std::string& directory, Communicator& world,
                                                Device& device);

// FailedPrecondition if some rank does not see in `directory` a file that rank 0 writes there under
// a random name, as on machines with separate disks: a checkpoint is complete only if all ranks
// write to one directory. Collective, with the same error on every rank, which names such a rank,
// its machine, the directory and rank 0's machine. The directory must exist for rank 0. Waits up to
// five seconds, since a network file system may show a new file late.
absl::Status CheckSharedDirectory(const std::string& directory, Communicator& world,
                                  Device& device);

}  // namespace zeroth
