// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/file/file_descriptor.h"

namespace zeroth {

// A regular file that can be read at any offset. Every read copies, by pread: a mapping would kill
// the process (SIGBUS) if the file is truncated, or its disk fails, while it is in use. Movable.
// Thread-safe.
class RandomAccessFile {
 public:
  // Opens a file. NotFound, PermissionDenied, or InvalidArgument if it is not a regular file. Every
  // message names the path. If the process is then near its soft limit on open files, raises the
  // soft limit to the hard one.
  static absl::StatusOr<RandomAccessFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  // The size in bytes when the file was opened.
  size_t size() const { return size_; }

  // Reads all of `out` from byte `begin` on. DataLoss, with the place, if the file ends too early,
  // because it was truncated after Open. Internal, with the requested bytes, if the system cannot
  // read them (EIO).
  absl::Status Read(size_t begin, absl::Span<uint8_t> out) const;
  // Reads the first `count` bytes, or all if there are fewer.
  absl::StatusOr<std::vector<uint8_t>> ReadHead(size_t count) const;

 private:
  std::string path_;
  FileDescriptor fd_;
  size_t size_ = 0;
};

}  // namespace zeroth
