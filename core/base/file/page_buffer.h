// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_BASE_FILE_PAGE_BUFFER_H_
#define ZEROTH_CORE_BASE_FILE_PAGE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace zeroth {

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

#endif  // ZEROTH_CORE_BASE_FILE_PAGE_BUFFER_H_
