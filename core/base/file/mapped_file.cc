// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/file/errno_status.h"

namespace zeroth {
namespace {

absl::StatusOr<MappedFile> NotRegular(const std::string& path, mode_t mode) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected a file, found ",
                   S_ISDIR(mode) ? "a directory" : "something that is not a file"));
}

}  // namespace

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    Unmap();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

MappedFile::~MappedFile() { Unmap(); }

void MappedFile::Unmap() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
  data_ = nullptr;
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK, or opening a named pipe would wait for a writer instead of being refused.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  struct stat info = {};
  if (fstat(fd, &info) != 0) {
    const int error = errno;
    close(fd);
    return ErrnoStatus(error, absl::StrCat("read the size of ", path));
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return NotRegular(path, info.st_mode);
  }
  MappedFile file;
  file.path_ = path;
  file.size_ = static_cast<size_t>(info.st_size);
  if (file.size_ > 0) {
    void* address = mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, fd, 0);
    const int error = errno;
    if (address == MAP_FAILED) {
      close(fd);
      return ErrnoStatus(error,
                         absl::StrCat("map ", path, " (", file.size_, " bytes) into memory"));
    }
    file.data_ = static_cast<const uint8_t*>(address);
  }
  close(fd);
  return file;
}

}  // namespace zeroth
