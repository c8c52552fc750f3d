// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The directory of a run: which one it is, and that no two runs share one by accident.

#ifndef ZEROTH_TRAIN_RUN_DIRECTORY_H_
#define ZEROTH_TRAIN_RUN_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
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

// Says that a run lives which writes into a directory: what is unfinished there is its own, and no
// other run removes it. A lock of rank 0's on the directory itself (flock), which ends with the
// process however that ends.
class RunLock {
 public:
  // Collective; the directory exists. FailedPrecondition on every rank if another run has the lock.
  // Where the file system locks no directories (NFS) nobody has it, and runs cannot be told apart.
  static absl::StatusOr<std::unique_ptr<RunLock>> Take(const std::string& directory,
                                                       Communicator& world, Device& device);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

 private:
  explicit RunLock(int fd) : fd_(fd) {}
  const int fd_;  // -1 on other ranks
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_RUN_DIRECTORY_H_
