// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_BASE_FILE_RANDOM_ACCESS_FILE_H_
#define ZEROTH_CORE_BASE_FILE_RANDOM_ACCESS_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace zeroth {

// A regular file that can be read at any place. Every read copies, by pread: a mapping would kill
// the process (SIGBUS) when somebody cuts the file short, or its disk fails, while it is in use.
// Movable. Thread-safe.
class RandomAccessFile {
 public:
  RandomAccessFile() = default;
  RandomAccessFile(RandomAccessFile&& other) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&& other) noexcept;
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;
  ~RandomAccessFile();

  // NotFound, PermissionDenied, or InvalidArgument for a directory or another thing that is not a
  // regular file; every message carries the path. The file stays open; where that brings the
  // process near its soft limit on open files, the limit rises to the hard one.
  static absl::StatusOr<RandomAccessFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  // Bytes when it was opened.
  size_t size() const { return size_; }

  // All of `out`, from the byte `begin` on. DataLoss, with the place where the file ends, if it
  // ends too early, as one does that was cut short since Open; Internal, with the bytes wanted, if
  // the system cannot read them (EIO).
  absl::Status Read(size_t begin, absl::Span<uint8_t> out) const;
  // The first `count` bytes, or all where there are fewer.
  absl::StatusOr<std::vector<uint8_t>> ReadHead(size_t count) const;

 private:
  void Close();

  std::string path_;
  int fd_ = -1;
  size_t size_ = 0;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_BASE_FILE_RANDOM_ACCESS_FILE_H_
