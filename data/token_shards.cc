// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

constexpr size_t kEndingBytes = 4;  // ".npy", ".bin"

}  // namespace

std::string TokenShardPath(const std::string& path, int64_t shard) {
  const size_t stem = path.size() - kEndingBytes;
  return absl::StrFormat("%s-%05d%s", path.substr(0, stem), shard, path.substr(stem));
}

absl::StatusOr<TokenShardWriter> TokenShardWriter::Create(const Options& options) {
  TokenShardWriter writer(options);
  if (!writer.is_npy() && !absl::EndsWith(options.path, ".bin")) {
    return InvalidArgument(options.path, ": expected a name that ends in .bin (llm.c) or .npy");
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (options.shard_tokens < 1 || options.shard_tokens > kMost) {
    return InvalidArgument("shards of ", options.shard_tokens, " tokens, expected 1 to ", kMost);
  }
  return writer;
}

bool TokenShardWriter::is_npy() const { return absl::EndsWith(options_.path, ".npy"); }

std::vector<uint8_t> TokenShardWriter::Header() const {
  const int64_t count = position_.tokens_in_shard;
  return is_npy() ? NpyHeaderBytes(token_bytes(), count) : LlmcHeaderBytes(token_bytes(), count);
}

absl::Status TokenShardWriter::OpenShard() {
  partial_ = PathOf(position_.shard) + ".partial";
  const bool is_new = position_.tokens_in_shard == 0;
  file_ = FileDescriptor(TEMP_FAILURE_RETRY(
      open(partial_.c_str(), O_WRONLY | O_CLOEXEC | (is_new ? O_CREAT | O_TRUNC : 0), 0666)));
  if (!file_.is_open()) return ErrnoStatus(errno, absl::StrCat("open ", partial_));
  return absl::OkStatus();
}

absl::Status TokenShardWriter::Resume(const Position& position) {
  ZEROTH_CHECK(!file_.is_open() && buffer_.empty());
  position_ = position;
  const auto is_there = [](const std::string& path) { return access(path.c_str(), F_OK) == 0; };
  // The shard may have been completed since, and renamed if it is the only one.
  if (position.shard + (position.tokens_in_shard > 0 ? 1 : 0) == 1 && !is_there(PathOf(0)) &&
      !is_there(PathOf(0) + ".partial")) {
    rename(options_.path.c_str(), PathOf(0).c_str());
  }
  if (position.tokens_in_shard == 0) return absl::OkStatus();
  const std::string complete = PathOf(position.shard);
  if (!is_there(complete + ".partial")) rename(complete.c_str(), (complete + ".partial").c_str());
  ZEROTH_RETURN_IF_ERROR(OpenShard());
  const auto bytes = static_cast<off_t>(
      Header().size() + static_cast<size_t>(position.tokens_in_shard) * token_bytes());
  struct stat found = {};
  if (fstat(file_.descriptor(), &found) != 0)
    return ErrnoStatus(errno, absl::StrCat("look at ", partial_));
  if (found.st_size < bytes) {
    return absl::DataLossError(absl::StrCat(partial_, ": has ", found.st_size,
                                            " bytes, expected at least ", bytes,
                                            " of an interrupted run; remove it, and the .progress "
                                            "file, to begin anew"));
  }
  if (ftruncate(file_.descriptor(), bytes) != 0)
    return ErrnoStatus(errno, absl::StrCat("cut ", partial_));
  return absl::OkStatus();
}

absl::Status TokenShardWriter::Append(absl::Span<const int32_t> ids) {
  constexpr size_t kBufferBytes = size_t{1} << 20;
  while (!ids.empty()) {
    if (!file_.is_open()) ZEROTH_RETURN_IF_ERROR(OpenShard());
    const int64_t buffered = static_cast<int64_t>(buffer_.size() / token_bytes());
    const int64_t room = options_.shard_tokens - position_.tokens_in_shard - buffered;
    const size_t count = std::min(ids.size(), static_cast<size_t>(room));
    for (const int32_t id : ids.first(count)) {
      const auto value = static_cast<uint32_t>(id);
      for (size_t i = 0; i < token_bytes(); ++i)
        buffer_.push_back(static_cast<uint8_t>(value >> (8 * i)));
    }
    ids.remove_prefix(count);
    if (buffer_.size() >= kBufferBytes) ZEROTH_RETURN_IF_ERROR(Flush());
    if (static_cast<int64_t>(count) < room) continue;
    ZEROTH_RETURN_IF_ERROR(CloseShard());
    ++position_.shard;
    position_.tokens_in_shard = 0;
  }
  return absl::OkStatus();
}

absl::Status TokenShardWriter::Flush() {
  if (!file_.is_open()) return absl::OkStatus();
  const auto place = static_cast<int64_t>(Header().size()) +
                     position_.tokens_in_shard * static_cast<int64_t>(token_bytes());
  ZEROTH_RETURN_IF_ERROR(WriteAt(file_.descriptor(), partial_, place, buffer_));
  position_.tokens_in_shard += static_cast<int64_t>(buffer_.size() / token_bytes());
  buffer_.clear();
  if (TEMP_FAILURE_RETRY(fdatasync(file_.descriptor())) != 0)
    return ErrnoStatus(errno, absl::StrCat("flush ", partial_));
  return absl::OkStatus();
}

absl::Status TokenShardWriter::CloseShard() {
  ZEROTH_RETURN_IF_ERROR(Flush());
  ZEROTH_RETURN_IF_ERROR(WriteAt(file_.descriptor(), partial_, 0, Header()));
  return PublishFile(file_, partial_, PathOf(position_.shard));
}

absl::Status TokenShardWriter::Finish() {
  ZEROTH_RETURN_IF_ERROR(Flush());
  if (file_.is_open() && position_.tokens_in_shard > 0) {
    ZEROTH_RETURN_IF_ERROR(CloseShard());
    ++position_.shard;
    position_.tokens_in_shard = 0;
  }
  if (position_.shard == 0) {
    return FailedPrecondition(options_.path, ": there is no token to write");
  }
  const bool is_one = position_.shard == 1;
  if (is_one && rename(PathOf(0).c_str(), options_.path.c_str()) != 0)
    return ErrnoStatus(errno, absl::StrCat("rename ", PathOf(0), " to ", options_.path));
  // Removes shards that an earlier call with this path wrote and this call did not: they would be
  // read as part of this output.
  const auto remove = [](const std::string& path) -> absl::StatusOr<bool> {
    if (unlink(path.c_str()) == 0) return true;
    if (errno == ENOENT) return false;
    return ErrnoStatus(errno, absl::StrCat("remove ", path, " of an earlier run"));
  };
  if (!is_one) ZEROTH_RETURN_IF_ERROR(remove(options_.path).status());
  for (int64_t shard = position_.shard;; ++shard) {
    ZEROTH_ASSIGN_OR_RETURN(const bool was_there, remove(PathOf(shard)));
    if (!was_there) return absl::OkStatus();
  }
}

}  // namespace zeroth
