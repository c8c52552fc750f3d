// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_BASE_FILE_DIRECT_FILE_H_
#define ZEROTH_CORE_BASE_FILE_DIRECT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace zeroth {

// A new file of a known size, for much data that nobody reads soon. It goes past the page cache
// where the file system can (O_DIRECT), which costs the processor next to nothing, leaves the cache
// to others, and is as fast as the disk; otherwise through it. The file is under its name only
// after Finish; one that is destroyed earlier leaves nothing behind. One thread.
class DirectFile {
 public:
  // Of file offsets, memory and lengths; enough for every disk in use.
  static constexpr int64_t kAlignment = 4096;

  // Creates a temporary sibling of `path` and reserves its room, so that a full disk
  // (ResourceExhausted) is known before anything is written. Other errors of the file system.
  // `direct` is what is tried.
  static absl::StatusOr<std::unique_ptr<DirectFile>> Create(std::string path, int64_t size,
                                                            bool direct = true);
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;
  ~DirectFile();

  // The bytes from `offset` on. Offset and memory are aligned, and so is the length unless it
  // reaches the end of the file; that which is not comes last, before Finish. Aborts otherwise, and
  // beyond the end. Errors of the file system.
  absl::Status Write(int64_t offset, absl::Span<const uint8_t> bytes);

  // Flushes to stable storage and renames to the name. What was not written is zeros.
  absl::Status Finish();

 private:
  DirectFile(std::string path, std::string temporary, int64_t size, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), size_(size), fd_(fd) {}
  absl::Status Reserve();
  // From here on through the page cache.
  absl::Status LeaveDirect();

  const std::string path_;
  const std::string temporary_;
  const int64_t size_;
  int fd_ = -1;
  bool direct_ = false;
};

// Host memory that begins on a page, as direct transfers to and from files need it. Huge pages
// where the system has them. Pages are there once they are touched. Empty by default.
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

#endif  // ZEROTH_CORE_BASE_FILE_DIRECT_FILE_H_
