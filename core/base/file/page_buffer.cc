// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/page_buffer.h"

#include <sys/mman.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace zeroth {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

absl::StatusOr<PageBuffer> PageBuffer::Allocate(size_t size) {
  const auto refused = [size] {
    return absl::ResourceExhaustedError(absl::StrCat("no host memory for ", size, " bytes"));
  };
  if (size > SIZE_MAX - kHugePageBytes) return refused();
  PageBuffer buffer;
  if (size == 0) return buffer;
  const size_t rounded = (size + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  void* const data =
      mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return refused();
  // A system without huge pages has small ones.
  madvise(data, rounded, MADV_HUGEPAGE);
  buffer.data_ = static_cast<uint8_t*>(data);
  buffer.size_ = rounded;
  return buffer;
}

PageBuffer::~PageBuffer() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace zeroth
