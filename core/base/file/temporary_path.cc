// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/temporary_path.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

constexpr char kTag[] = "tmp";
constexpr size_t kDigits = 16;
// The file that marks a directory to keep.
constexpr char kKeep[] = ".keep";
// Another process that removes leftovers may remove a new path before it is locked; then another
// one is created.
constexpr int kAttempts = 100;

// True if `path` still names the file of `fd`.
bool IsAt(int fd, const std::string& path) {
  struct stat open = {};
  struct stat named = {};
  return fstat(fd, &open) == 0 && lstat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

// True if `name` is that of a temporary sibling of a file called `base`.
bool IsTemporaryName(absl::string_view name, absl::string_view base) {
  return absl::ConsumePrefix(&name, base) && absl::ConsumePrefix(&name, ".") &&
         absl::ConsumePrefix(&name, kTag) && absl::ConsumePrefix(&name, "-") &&
         name.size() == kDigits && std::all_of(name.begin(), name.end(), absl::ascii_isxdigit);
}

int OpenNew(const std::string& path, bool directory) {
  if (!directory)
    return TEMP_FAILURE_RETRY(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (mkdir(path.c_str(), 0777) != 0) return -1;
  const int fd =
      TEMP_FAILURE_RETRY(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const int error = errno;
  if (fd < 0) rmdir(path.c_str());
  errno = error;
  return fd;
}

absl::StatusOr<TemporaryPath> CreateTemporary(const std::string& of, bool directory) {
  std::string path;
  for (int i = 0; i < kAttempts; ++i) {
    path = TemporarySibling(of, kTag);
    const int fd = OpenNew(path, directory);
    // ENOENT: another process removed the directory as a leftover before it was opened.
    if (fd < 0 && errno != EEXIST && !(directory && errno == ENOENT && i + 1 < kAttempts)) break;
    if (fd < 0) continue;
    FileDescriptor file(fd);
    if (TryLock(fd) != LockResult::kHeld && IsAt(fd, path)) {
      return TemporaryPath{path, std::move(file)};
    }
  }
  return ErrnoStatus(errno, absl::StrCat("create ", directory ? "directory " : "", path));
}

// Removes a leftover while holding its lock, so that of two processes only one removes it.
void RemoveIfDead(const fs::path& path) {
  struct stat facts = {};
  if (lstat(path.c_str(), &facts) != 0) return;
  // Network file systems lock only what is open for writing.
  const int access = S_ISDIR(facts.st_mode) ? O_RDONLY | O_DIRECTORY : O_WRONLY;
  const FileDescriptor file(open(path.c_str(), access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open()) return;
  std::error_code ignored;
  if (TryLock(file.descriptor()) == LockResult::kTaken && IsAt(file.descriptor(), path.string()) &&
      !fs::exists(path / kKeep, ignored)) {
    fs::remove_all(path, ignored);
  }
}

}  // namespace

LockResult TryLock(int fd) {
  if (TEMP_FAILURE_RETRY(flock(fd, LOCK_EX | LOCK_NB)) == 0) return LockResult::kTaken;
  return errno == EWOULDBLOCK ? LockResult::kHeld : LockResult::kUnknown;
}

absl::StatusOr<FileDescriptor> LockFile(const std::string& path) {
  while (true) {
    FileDescriptor file(
        TEMP_FAILURE_RETRY(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666)));
    if (!file.is_open()) return ErrnoStatus(errno, absl::StrCat("open ", path));
    if (TryLock(file.descriptor()) == LockResult::kHeld) return FileDescriptor();
    // Its holder may have removed the file since it was opened.
    if (IsAt(file.descriptor(), path)) return file;
  }
}

absl::StatusOr<TemporaryPath> CreateTemporaryFile(const std::string& of) {
  return CreateTemporary(of, /*directory=*/false);
}

absl::StatusOr<TemporaryPath> CreateTemporaryDirectory(const std::string& of) {
  return CreateTemporary(of, /*directory=*/true);
}

void RemoveDeadTemporaries(const std::string& of) {
  const fs::path path(of);
  const std::string base = path.filename().string();
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (IsTemporaryName(it->path().filename().string(), base)) found.push_back(it->path());
  }
  for (const fs::path& temporary : found) RemoveIfDead(temporary);
}

absl::Status KeepTemporary(const std::string& path) {
  return WriteFileDurably(absl::StrCat(path, "/", kKeep), "");
}

absl::Status ReplaceFile(const std::string& path, absl::string_view content) {
  RemoveDeadTemporaries(path);
  ZEROTH_ASSIGN_OR_RETURN(TemporaryPath temporary, CreateTemporaryFile(path));
  absl::Status status = WriteAt(
      temporary.file.descriptor(), temporary.path, 0,
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(content.data()), content.size()));
  if (status.ok()) status = PublishFile(temporary.file, temporary.path, path);
  if (temporary.file.is_open()) unlink(temporary.path.c_str());
  return status;
}

}  // namespace zeroth
