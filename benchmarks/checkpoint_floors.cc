// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/benchmarks/checkpoint_floors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/file/errno_status.h"

namespace zeroth {
namespace {

constexpr int64_t kDdBlockBytes = int64_t{8} << 20;
constexpr size_t kReadBytes = size_t{8} << 20;
constexpr size_t kWindowBytes = size_t{256} << 20;

}  // namespace

absl::StatusOr<double> TimeDd(const std::string& directory, int64_t bytes, bool direct) {
  const std::string path = absl::StrCat(directory, "/dd");
  const int64_t blocks = (bytes + kDdBlockBytes - 1) / kDdBlockBytes;
  const std::string command =
      absl::StrCat("dd if=/dev/zero of='", path, "' bs=", kDdBlockBytes, " count=", blocks,
                   " conv=fsync status=none", direct ? " oflag=direct" : "");
  const auto start = std::chrono::steady_clock::now();
  const int status = std::system(command.c_str());
  const auto end = std::chrono::steady_clock::now();
  unlink(path.c_str());
  if (status != 0) {
    return absl::InternalError(absl::StrCat(command, ": failed with wait status ", status));
  }
  return std::chrono::duration<double>(end - start).count();
}

CopyTarget::CopyTarget() : window_(kWindowBytes, 1) {}

void CopyTarget::Copy(absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), window_.size() - place_);
    std::memcpy(window_.data() + place_, bytes.data(), count);
    place_ = (place_ + count) % window_.size();
    bytes.remove_prefix(count);
  }
}

absl::Status ReadFileInto(const std::string& path, const std::vector<absl::Span<uint8_t>>& memory) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  absl::Status status;
  for (absl::Span<uint8_t> part : memory) {
    while (!part.empty() && status.ok()) {
      const ssize_t count = read(fd, part.data(), std::min(kReadBytes, part.size()));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) status = ErrnoStatus(errno, absl::StrCat("read ", path));
      if (count == 0) status = absl::OutOfRangeError(absl::StrCat(path, " is too short"));
      if (count > 0) part.remove_prefix(static_cast<size_t>(count));
    }
  }
  close(fd);
  return status;
}

}  // namespace zeroth
