// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_RUN_LOCK_H_
#define ZEROTH_TRAIN_RUN_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"

namespace zeroth {

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

#endif  // ZEROTH_TRAIN_RUN_LOCK_H_
