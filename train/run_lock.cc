// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"

namespace zeroth {
namespace {

absl::Status Lock(const std::string& directory, int& fd) {
  fd = TEMP_FAILURE_RETRY(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open directory ", directory));
  if (TryLock(fd) != LockResult::kHeld) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--out=", directory,
                   ": another run that is alive writes there; end it first, or name another "
                   "directory"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunLock>> RunLock::Take(const std::string& directory,
                                                       Communicator& world, Device& device) {
  int fd = -1;
  const absl::Status mine = world.rank() == 0 ? Lock(directory, fd) : absl::OkStatus();
  std::unique_ptr<RunLock> lock(new RunLock(fd));
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world, device, mine, "lock the output directory"));
  return lock;
}

RunLock::~RunLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace zeroth
