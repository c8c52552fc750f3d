// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/core/base/file/file_descriptor.h"

namespace zeroth {

// Reads a sharded checkpoint range by range. Every returned byte has passed its checksum. Only the
// blocks that hold the range are read. For one thread; each rank opens a separate reader.
//
// DataLoss means that the checkpoint is proven damaged, so that another checkpoint should be tried:
// the index is missing or inconsistent, or a file is missing, cut short, of another save, or
// changed. The message names the file, and for a damaged range its bytes, parameter and elements.
// Unimplemented means a newer version of the format, which may be intact. Other codes are the file
// system's; the checkpoint may be intact.
class CheckpointReader {
 public:
  // NotFound if there is no such directory.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const std::string& directory);

  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  const std::string& directory() const { return directory_; }
  const CheckpointIndex& index() const { return index_; }
  // The tensor of a parameter's state; null if there is none.
  const CheckpointTensor* Find(absl::string_view parameter, absl::string_view state) const;

  // out[i] = element begin + i of a state, as float32. NotFound if there is no such state,
  // InvalidArgument if its type does not convert, OutOfRange if the range leaves it.
  absl::Status Read(absl::string_view parameter, absl::string_view state, int64_t begin,
                    absl::Span<float> out);
  // Like Read, but returns elements in the stored type. The size of `out` must be a whole number of
  // elements.
  absl::Status ReadBytes(absl::string_view parameter, absl::string_view state, int64_t begin,
                         absl::Span<uint8_t> out);

  // Returns the content of a carried file (CheckpointSaverOptions::files). NotFound if there is
  // none of this name.
  absl::StatusOr<std::string> ReadCarriedFile(absl::string_view name);
  // Checks all carried files.
  absl::Status CheckCarriedFiles();

  // Reads and checks every byte. Returns a status for each damaged file or block, at most `limit`.
  std::vector<absl::Status> Verify(size_t limit = 100);

 private:
  CheckpointReader(std::string directory, CheckpointIndex index)
      : directory_(std::move(directory)), index_(std::move(index)) {}
  struct Place;

  std::string PathOf(int file) const;
  // Opens a file and checks its header, unless it is open.
  absl::StatusOr<int> OpenFile(int file);
  absl::Status CheckHeader(int fd, int file);
  // Asks the system to prefetch from `begin` on, unless this was done.
  void ReadAhead(int fd, int file, int64_t begin);
  // Reads as pread does, from memory if possible, and otherwise with read-ahead.
  ssize_t ReadSome(int fd, int file, int64_t begin, absl::Span<uint8_t> out);
  absl::Status ReadFileBytes(int fd, int file, int64_t begin, absl::Span<uint8_t> out);
  // Reads and checks a whole block.
  absl::Status ReadBlock(const Place& place, int64_t block, absl::Span<uint8_t> out);
  // Reads bytes [begin, begin + out.size()) of a piece.
  absl::Status ReadPiece(const Place& place, int64_t begin, absl::Span<uint8_t> out);

  const std::string directory_;
  const CheckpointIndex index_;
  std::map<int, FileDescriptor> open_;
  std::map<int, int64_t> advised_;  // by file: the end of the prefetched range
  // The block that was last read in part. The next range often begins in it.
  const CheckpointPiece* cached_piece_ = nullptr;
  int64_t cached_block_ = 0;
  std::vector<uint8_t> cache_;
};

}  // namespace zeroth
