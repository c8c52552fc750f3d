// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/file_util.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  ZEROTH_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  if (file.size() > max_bytes) {
    return InvalidArgument(path, ": ", file.size(), " bytes, expected at most ", max_bytes);
  }
  std::string text(file.size(), '\0');
  ZEROTH_RETURN_IF_ERROR(
      file.Read(0, absl::MakeSpan(reinterpret_cast<uint8_t*>(text.data()), text.size())));
  return text;
}

absl::Status WriteAt(int fd, const std::string& path, int64_t offset,
                     absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(
          errno, absl::StrCat("write ", bytes.size(), " bytes at byte ", offset, " of ", path));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

absl::Status WriteFileDurably(const std::string& path, absl::string_view content) {
  FileDescriptor file(
      TEMP_FAILURE_RETRY(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)));
  if (!file.is_open()) return ErrnoStatus(errno, absl::StrCat("create ", path));
  ZEROTH_RETURN_IF_ERROR(WriteAt(
      file.descriptor(), path, 0,
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(content.data()), content.size())));
  if (TEMP_FAILURE_RETRY(fsync(file.descriptor())) != 0)
    return ErrnoStatus(errno, absl::StrCat("flush ", path));
  // Network file systems report a failed write as late as here.
  if (close(file.Release()) != 0) return ErrnoStatus(errno, absl::StrCat("close ", path));
  return absl::OkStatus();
}

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool IsPlainFileName(absl::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(absl::string_view("/\0", 2)) == absl::string_view::npos;
}

absl::StatusOr<bool> PathExists(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::status_known(status)) return std::filesystem::exists(status);
  return ErrnoStatus(error.value(), absl::StrCat("look for ", path));
}

absl::Status CheckOutput(absl::string_view flag, const std::string& path, bool overwrite,
                         absl::string_view kind,
                         absl::FunctionRef<bool(const std::string& path)> is_kind) {
  ZEROTH_ASSIGN_OR_RETURN(const bool exists, PathExists(path));
  if (!exists || (overwrite && is_kind(path))) return absl::OkStatus();
  return absl::AlreadyExistsError(
      overwrite ? absl::StrCat(flag, "=", path, " exists and is not ", kind,
                               ", so --overwrite does not replace it; name another path")
                : absl::StrCat(flag, "=", path,
                               " exists; name another path, or say --overwrite to replace it"));
}

absl::Status CheckDirectoryOf(absl::string_view flag, const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  std::error_code ignored;
  if (parent.empty() || std::filesystem::is_directory(parent, ignored)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(flag, "=", path, ": there is no directory ", parent,
                                          "; create it, or name a file in another directory"));
}

absl::Status RenamePath(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("rename ", from, " to ", to));
}

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("remove ", path)) : absl::OkStatus();
}

absl::StatusOr<std::string> CanonicalPath(const std::string& path) {
  std::error_code error;
  std::filesystem::path resolved =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("resolve ", path));
  if (!resolved.has_filename()) resolved = resolved.parent_path();
  return resolved.string();
}

absl::Status SyncDirectory(const std::string& directory) {
  const FileDescriptor opened(TEMP_FAILURE_RETRY(
      open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  if (!opened.is_open()) return ErrnoStatus(errno, absl::StrCat("open directory ", directory));
  // EINVAL: the file system cannot flush directories, so nothing more can be done.
  if (TEMP_FAILURE_RETRY(fsync(opened.descriptor())) == 0 || errno == EINVAL)
    return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("flush directory ", directory));
}

absl::Status PublishFile(FileDescriptor& file, const std::string& temporary,
                         const std::string& path) {
  if (TEMP_FAILURE_RETRY(fsync(file.descriptor())) != 0)
    return ErrnoStatus(errno, absl::StrCat("flush ", temporary));
  // Renamed while it is open: closing it releases the lock that tells it from a leftover.
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    file = FileDescriptor();
    return ErrnoStatus(error, absl::StrCat("rename ", temporary, " to ", path));
  }
  if (close(file.Release()) != 0) return ErrnoStatus(errno, absl::StrCat("close ", path));
  return SyncDirectory(std::filesystem::path(path).parent_path().string());
}

std::string TemporarySibling(const std::string& path, absl::string_view tag) {
  std::random_device random;
  const uint64_t digits = uint64_t{random()} << 32 | random();
  return absl::StrCat(path, ".", tag, "-", absl::Hex(digits, absl::kZeroPad16));
}

}  // namespace zeroth
