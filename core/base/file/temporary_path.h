// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Files and directories that are being made, beside what they will be called. Their names are
// random, since process numbers repeat: in a container they always start at 1. Whoever makes one
// holds a lock on it (flock), which the system releases when the process ends however it ends, so
// that the leftovers of the dead can be told from what the living still write.

#ifndef ZEROTH_CORE_BASE_FILE_TEMPORARY_PATH_H_
#define ZEROTH_CORE_BASE_FILE_TEMPORARY_PATH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

enum class LockResult {
  kTaken,    // until the descriptor is closed
  kHeld,     // by another descriptor, of this or another process
  kUnknown,  // the file system has no such locks
};
// Locks what `fd` is open on, without waiting. File systems without locks, and those that lock no
// directories (NFS), give kUnknown.
LockResult TryLock(int fd);

struct TemporaryPath {
  std::string path;  // "<of>.tmp-<16 digits>"
  int fd = -1;       // open on it, and locked; the caller's to close
};

// Creates an empty file, open for writing, or a directory, under a name that nothing else has.
// Errors of the file system.
absl::StatusOr<TemporaryPath> CreateTemporaryFile(const std::string& of);
absl::StatusOr<TemporaryPath> CreateTemporaryDirectory(const std::string& of);

// Removes what these two have made for the same `of` in processes that are dead. What is locked, or
// cannot be known to be a leftover, stays; so does what cannot be removed.
void RemoveDeadTemporaries(const std::string& of);

// Marks a temporary directory as one to keep: RemoveDeadTemporaries leaves it from then on.
absl::Status KeepTemporary(const std::string& path);

// Creates or replaces the file `path`, for good: readers, and whoever comes after a power failure,
// see what was there before or all of `content`.
absl::Status ReplaceFile(const std::string& path, absl::string_view content);

}  // namespace zeroth

#endif  // ZEROTH_CORE_BASE_FILE_TEMPORARY_PATH_H_
