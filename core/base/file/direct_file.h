// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/file/file_descriptor.h"
#include "zeroth/core/base/file/temporary_path.h"

namespace zeroth {

// Writes a new file of a known size, for large data that is not read soon. If the file system
// allows, it bypasses the page cache (O_DIRECT). That costs little processor time, leaves the cache
// to other data, and is as fast as the disk. The file has its name only after Finish; if it is
// destroyed earlier, nothing is left. Not thread-safe.
class DirectFile {
 public:
  // The alignment of file offsets, memory and lengths; enough for every disk in use.
  static constexpr int64_t kAlignment = 4096;

  // Creates a temporary sibling of `path`, and reserves its space, so that a full disk
  // (ResourceExhausted) is found before writing. Other errors of the file system. `direct`: try to
  // bypass the page cache.
  static absl::StatusOr<std::unique_ptr<DirectFile>> Create(std::string path, int64_t size,
                                                            bool direct = true);
  ~DirectFile();

  // Writes bytes from `offset` on. Aborts beyond the end of the file, and unless offset and memory
  // are aligned, and the length is aligned or reaches the end of the file. A write of unaligned
  // length must be the last one. Errors of the file system.
  absl::Status Write(int64_t offset, absl::Span<const uint8_t> bytes);

  // Flushes the file to stable storage and renames it to `path`. Bytes that were not written are
  // zeros.
  absl::Status Finish();

 private:
  DirectFile(std::string path, TemporaryPath temporary, int64_t size)
      : path_(std::move(path)),
        temporary_(std::move(temporary.path)),
        size_(size),
        file_(std::move(temporary.file)) {}
  absl::Status Reserve();
  // Writes through the page cache from now on.
  absl::Status LeaveDirect();

  const std::string path_;
  const std::string temporary_;
  const int64_t size_;
  FileDescriptor file_;
  bool direct_ = false;
};

// Host memory that begins on a page, as direct file transfers need. Uses huge pages where the
// system has them. Pages are allocated when they are first touched. Empty by default.
class PageBuffer {
 public:
  PageBuffer() = default;
  PageBuffer(PageBuffer&& other) noexcept { *this = std::move(other); }
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;
  ~PageBuffer();

  // At least `size` bytes, zeros. ResourceExhausted if the system refuses.
  static absl::StatusOr<PageBuffer> Allocate(size_t size);

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace zeroth
