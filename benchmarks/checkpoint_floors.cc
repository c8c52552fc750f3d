// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/benchmarks/checkpoint_floors.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/file/errno_status.h"

extern char** environ;

namespace zeroth {
namespace {

constexpr int64_t kDdBlockBytes = int64_t{8} << 20;
constexpr size_t kReadBytes = size_t{8} << 20;
constexpr size_t kWindowBytes = size_t{256} << 20;

// Waits for the program to end well.
absl::Status RunProgram(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
  if (error != 0) return ErrnoStatus(error, absl::StrCat("run ", words[0]));
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return ErrnoStatus(errno, absl::StrCat("wait for ", words[0]));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(words[0], " ended with status ", status));
}

}  // namespace

absl::StatusOr<double> TimeDd(const std::string& directory, int64_t bytes, bool direct) {
  const std::string path = absl::StrCat(directory, "/dd");
  const int64_t blocks = (bytes + kDdBlockBytes - 1) / kDdBlockBytes;
  std::vector<std::string> words = {"dd",
                                    "if=/dev/zero",
                                    absl::StrCat("of=", path),
                                    absl::StrCat("bs=", kDdBlockBytes),
                                    absl::StrCat("count=", blocks),
                                    "conv=fsync",
                                    "status=none"};
  if (direct) words.push_back("oflag=direct");
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = RunProgram(std::move(words));
  const auto end = std::chrono::steady_clock::now();
  unlink(path.c_str());
  if (!status.ok()) return status;
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
