// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cpu/file_store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <mutex>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cpu/cpu_stream.h"

namespace zeroth {
namespace {

// The open file and the counters, which the store, its regions and running transfers share.
struct File {
  File(std::string path, int fd) : directory(std::move(path)), descriptor(fd) {}
  ~File() { close(descriptor); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::string Where(int64_t offset) const {
    return absl::StrCat("offload file in ", directory, ", byte ", offset);
  }

  const std::string directory;
  const int descriptor;
  std::atomic<int64_t> bytes_read{0};
  std::atomic<int64_t> bytes_written{0};
};

// Calls `move` (pread or pwrite) until all bytes have moved.
template <typename Move, typename Byte>
absl::Status MoveAll(const File& file, const char* verb, Move move, Byte* data, size_t bytes,
                     int64_t offset) {
  for (size_t done = 0; done < bytes;) {
    const int64_t at = offset + static_cast<int64_t>(done);
    const ssize_t moved = move(file.descriptor, data + done, bytes - done, at);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return ErrnoStatus(errno, absl::StrCat(verb, " ", file.Where(at)));
    if (moved == 0) {
      return absl::DataLossError(absl::StrCat(file.Where(at), ": the file ends there, ",
                                              bytes - done, " bytes before the ", verb, " does"));
    }
    done += static_cast<size_t>(moved);
  }
  return absl::OkStatus();
}

class FileRegion final : public OffloadRegion {
 public:
  FileRegion(std::shared_ptr<File> file, int64_t begin, int64_t bytes)
      : OffloadRegion(bytes), file_(std::move(file)), begin_(begin) {}

  absl::Status Read(int64_t offset, void* dst, size_t bytes, Stream& stream) override {
    return Move("read", pread, offset, static_cast<char*>(dst), bytes, &File::bytes_read, stream);
  }
  absl::Status Write(int64_t offset, const void* src, size_t bytes, Stream& stream) override {
    return Move("write", pwrite, offset, static_cast<const char*>(src), bytes, &File::bytes_written,
                stream);
  }

 private:
  template <typename Function, typename Byte>
  absl::Status Move(const char* verb, Function function, int64_t offset, Byte* data, size_t count,
                    std::atomic<int64_t> File::*counter, Stream& stream) const {
    ZEROTH_CHECK(offset >= 0 && offset <= bytes());
    ZEROTH_CHECK(count <= static_cast<size_t>(bytes() - offset));
    return CpuStream::From(stream).Enqueue([=, file = file_, at = begin_ + offset] {
      ZEROTH_RETURN_IF_ERROR(MoveAll(*file, verb, function, data, count, at));
      (*file).*counter += static_cast<int64_t>(count);
      return absl::OkStatus();
    });
  }

  const std::shared_ptr<File> file_;
  const int64_t begin_;
};

// Returns the limit of `ulimit -f`. Extending a file beyond it would raise a signal that ends the
// process, so it has to be checked first.
int64_t LargestFile() {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMost;
  return static_cast<int64_t>(std::min(limit.rlim_cur, static_cast<rlim_t>(kMost)));
}

class FileStore final : public OffloadStore {
 public:
  explicit FileStore(std::shared_ptr<File> file) : file_(std::move(file)) {}

  absl::StatusOr<std::shared_ptr<OffloadRegion>> Reserve(int64_t bytes) override {
    ZEROTH_CHECK(bytes >= 0);
    std::lock_guard<std::mutex> lock(mutex_);
    if (bytes > 0) ZEROTH_RETURN_IF_ERROR(Extend(bytes));
    const int64_t begin = std::exchange(end_, end_ + bytes);
    return std::make_shared<FileRegion>(file_, begin, bytes);
  }

  OffloadStats stats() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return {end_, file_->bytes_read, file_->bytes_written};
  }

 private:
  absl::Status Extend(int64_t bytes) {
    int error = EFBIG;
    if (bytes <= LargestFile() - end_) {
      do {
        error = posix_fallocate(file_->descriptor, end_, bytes);
      } while (error == EINTR);
    }
    if (error == 0) return absl::OkStatus();
    // Some file systems keep the blocks that they allocated before they ran out.
    if (ftruncate(file_->descriptor, end_) != 0) {
      return ErrnoStatus(errno, absl::StrCat("shorten the ", file_->Where(end_)));
    }
    return ErrnoStatus(
        error, absl::StrCat("reserve ", bytes, " bytes beside ", end_, " in the offload file in ",
                            file_->directory, " (free space there, or choose another directory)"));
  }

  const std::shared_ptr<File> file_;
  mutable std::mutex mutex_;
  int64_t end_ = 0;
};

absl::StatusOr<std::string> DirectoryOf(const OffloadStoreOptions& options) {
  if (!options.directory.empty()) return options.directory;
  std::error_code error;
  const std::filesystem::path path = std::filesystem::temp_directory_path(error);
  if (!error) return path.string();
  return absl::NotFoundError(absl::StrCat(
      "no offload directory was given, and the system's for temporary files is missing: ",
      error.message(), "; give one"));
}

// Opens a file without a name. If the file system cannot create one, removes its name at once.
int OpenNameless(const std::string& directory) {
  const int nameless = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (nameless >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return nameless;
  std::string path = absl::StrCat(directory, "/zeroth_offload_XXXXXX");
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

}  // namespace

absl::StatusOr<std::shared_ptr<OffloadStore>> OpenFileStore(const OffloadStoreOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string directory, DirectoryOf(options));
  const int descriptor = OpenNameless(directory);
  if (descriptor < 0) {
    return ErrnoStatus(errno, absl::StrCat("make an offload file in directory ", directory));
  }
  return std::make_shared<FileStore>(std::make_shared<File>(directory, descriptor));
}

}  // namespace zeroth
