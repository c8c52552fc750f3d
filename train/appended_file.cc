// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/appended_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/file/errno_status.h"

namespace zeroth {

absl::StatusOr<AppendedFile> AppendedFile::Open(const std::string& path, int flags) {
  const int fd = TEMP_FAILURE_RETRY(
      open(path.c_str(), flags | O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("write ", path));
  return AppendedFile(path, fd);
}

AppendedFile::AppendedFile(AppendedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      unwritten_(std::move(other.unwritten_)) {}

AppendedFile::~AppendedFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status AppendedFile::Append(absl::string_view record) {
  absl::StrAppend(&unwritten_, record);
  while (!unwritten_.empty()) {
    const ssize_t written = write(fd_, unwritten_.data(), unwritten_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, absl::StrCat("write ", path_));
    unwritten_.erase(0, static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace zeroth
