// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Temporary files and directories, beside the path that they are renamed to when complete. Their
// names are random, because process numbers repeat: in a container they always start at 1. The
// process that creates one holds a lock on it (flock), which the system releases however the
// process ends. So leftovers of dead processes can be told from files that are still being written.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/file/file_descriptor.h"

namespace zeroth {

enum class LockResult {
  kTaken,    // locked until the descriptor is closed
  kHeld,     // another descriptor has the lock, in this or another process
  kUnknown,  // the file system has no such locks
};
// Locks the file or directory of `fd`, without waiting. Returns kUnknown if the file system has no
// locks, or cannot lock directories (NFS).
LockResult TryLock(int fd);

// Opens and locks the file `path`, which is created if it is missing. Returns a descriptor that is
// not open if another one has the lock. Whoever has it may remove the file, before it closes the
// descriptor.
absl::StatusOr<FileDescriptor> LockFile(const std::string& path);

struct TemporaryPath {
  std::string path;     // "<of>.tmp-<16 digits>"
  FileDescriptor file;  // open and locked
};

// Create an empty file, open for writing, or a directory, under a unique name. Errors of the file
// system.
absl::StatusOr<TemporaryPath> CreateTemporaryFile(const std::string& of);
absl::StatusOr<TemporaryPath> CreateTemporaryDirectory(const std::string& of);

// Removes the temporaries that dead processes have left for the same `of`. Keeps those that are
// locked or may not be leftovers, and ignores errors of removing.
void RemoveDeadTemporaries(const std::string& of);

// Marks a temporary directory, so that RemoveDeadTemporaries keeps it.
absl::Status KeepTemporary(const std::string& path);

// Creates or replaces the file `path`, atomically and durably: readers, also after a power failure,
// see the old content or all of the new.
absl::Status ReplaceFile(const std::string& path, absl::string_view content);

}  // namespace zeroth
