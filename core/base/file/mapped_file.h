// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_BASE_FILE_MAPPED_FILE_H_
#define ZEROTH_CORE_BASE_FILE_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

// A regular file mapped read-only: opening costs no memory, and only the pages that are touched are
// read. Movable; the bytes stay at one address until the last owner is destroyed. Thread-safe. The
// mapping is of the file as it was at Open: whoever truncates a mapped file in place makes later
// accesses fault, as with every mmap.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // NotFound, PermissionDenied, or InvalidArgument for a directory or another thing that is not a
  // regular file; every message carries the path. An empty file is valid and has no bytes.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  size_t size() const { return size_; }
  // First byte, page aligned; null for an empty file.
  const uint8_t* data() const { return data_; }
  absl::Span<const uint8_t> bytes() const { return {data_, size_}; }
  absl::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  void Unmap();

  std::string path_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_BASE_FILE_MAPPED_FILE_H_
