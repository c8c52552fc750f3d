// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/direct_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<std::unique_ptr<DirectFile>> DirectFile::Create(std::string path, int64_t size,
                                                               bool direct) {
  ZEROTH_ASSIGN_OR_RETURN(TemporaryPath temporary, CreateTemporaryFile(path));
  const int fd = temporary.file.descriptor();
  std::unique_ptr<DirectFile> file(new DirectFile(std::move(path), std::move(temporary), size));
  ZEROTH_RETURN_IF_ERROR(file->Reserve());
  // Fails if the file system has no direct transfers.
  if (direct) file->direct_ = fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT) == 0;
  return file;
}

DirectFile::~DirectFile() {
  if (file_.is_open()) unlink(temporary_.c_str());
}

absl::Status DirectFile::Reserve() {
  if (size_ == 0) return absl::OkStatus();
  int error = TEMP_FAILURE_RETRY(fallocate(file_.descriptor(), 0, 0, size_)) == 0 ? 0 : errno;
  // Some file systems cannot reserve space; then only the size is set.
  if (error == EOPNOTSUPP || error == ENOSYS) {
    error = TEMP_FAILURE_RETRY(ftruncate(file_.descriptor(), size_)) == 0 ? 0 : errno;
  }
  if (error == 0) return absl::OkStatus();
  return ErrnoStatus(error, absl::StrCat("reserve ", size_, " bytes for ", path_));
}

absl::Status DirectFile::LeaveDirect() {
  direct_ = false;
  if (fcntl(file_.descriptor(), F_SETFL, fcntl(file_.descriptor(), F_GETFL) & ~O_DIRECT) == 0)
    return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("turn direct writing off for ", temporary_));
}

absl::Status DirectFile::Write(int64_t offset, absl::Span<const uint8_t> bytes) {
  const auto count = static_cast<int64_t>(bytes.size());
  ZEROTH_CHECK(file_.is_open() && offset >= 0 && count <= size_ && offset <= size_ - count);
  ZEROTH_CHECK(offset % kAlignment == 0);
  ZEROTH_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment == 0);
  ZEROTH_CHECK(count % kAlignment == 0 || offset + count == size_);
  while (!bytes.empty()) {
    absl::Span<const uint8_t> part = bytes;
    if (direct_) {
      const size_t whole = bytes.size() / kAlignment * kAlignment;
      if (whole == 0) ZEROTH_RETURN_IF_ERROR(LeaveDirect());
      if (whole > 0) part = bytes.subspan(0, whole);
    }
    const ssize_t written = pwrite(file_.descriptor(), part.data(), part.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL && direct_) {
      // The disk has larger blocks, or the file system does not really support it.
      ZEROTH_RETURN_IF_ERROR(LeaveDirect());
      continue;
    }
    if (written < 0) {
      return ErrnoStatus(errno, absl::StrCat("write ", part.size(), " bytes at byte ", offset,
                                             " of ", temporary_));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
    // After a short write, the rest may no longer be aligned.
    if (direct_ && written % kAlignment != 0) ZEROTH_RETURN_IF_ERROR(LeaveDirect());
  }
  return absl::OkStatus();
}

absl::Status DirectFile::Finish() {
  ZEROTH_CHECK(file_.is_open());
  return PublishFile(file_, temporary_, path_);
}

absl::StatusOr<PageBuffer> PageBuffer::Allocate(size_t size) {
  constexpr size_t kHugePageBytes = size_t{2} << 20;
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
  // An error is ignored: without huge pages, the system uses small ones.
  madvise(data, rounded, MADV_HUGEPAGE);
  buffer.data_ = static_cast<uint8_t*>(data);
  buffer.size_ = rounded;
  return buffer;
}

PageBuffer::~PageBuffer() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace zeroth
