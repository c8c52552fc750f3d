// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/random_access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/file/descriptor_limit.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

absl::Status NotRegular(const std::string& path, mode_t mode) {
  return InvalidArgument(path, ": expected a file, found ",
                         S_ISDIR(mode) ? "a directory" : "something that is not a file");
}

}  // namespace

absl::StatusOr<RandomAccessFile> RandomAccessFile::Open(const std::string& path) {
  RandomAccessFile file;
  file.path_ = path;
  // O_NONBLOCK, or opening a named pipe would wait for a writer instead of being refused.
  const int fd = TEMP_FAILURE_RETRY(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  file.fd_ = FileDescriptor(fd);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  struct stat info = {};
  if (fstat(fd, &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("read the size of ", path));
  }
  if (!S_ISREG(info.st_mode)) return NotRegular(path, info.st_mode);
  file.size_ = static_cast<size_t>(info.st_size);
  // Data may have thousands of files, while soft limits of 1,024 are common. The limit is raised
  // before it is reached, because sockets and checkpoints need descriptors too. If that fails, a
  // later open reports the error.
  RaiseDescriptorLimit(2 * static_cast<uint64_t>(fd));
  return file;
}

absl::Status RandomAccessFile::Read(size_t begin, absl::Span<uint8_t> out) const {
  const size_t end = begin + out.size();
  while (!out.empty()) {
    const ssize_t count =
        pread(fd_.descriptor(), out.data(), out.size(), static_cast<off_t>(begin));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return ErrnoStatus(errno, absl::StrCat("read the bytes [", begin, ", ", end, ") of ", path_));
    }
    if (count == 0) {
      return absl::DataLossError(absl::StrCat(
          path_, ": ends at or before byte ", begin, ", but the bytes up to ", end,
          " are wanted and it had ", size_, " when it was opened; it has been truncated since"));
    }
    out.remove_prefix(static_cast<size_t>(count));
    begin += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint8_t>> RandomAccessFile::ReadHead(size_t count) const {
  std::vector<uint8_t> head(std::min(count, size_));
  ZEROTH_RETURN_IF_ERROR(Read(0, absl::MakeSpan(head)));
  return head;
}

}  // namespace zeroth
