// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_SHARDED_CHECKPOINT_READER_H_
#define ZEROTH_CHECKPOINT_SHARDED_CHECKPOINT_READER_H_

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

namespace zeroth {

// A sharded checkpoint, read range by range. Every byte that is handed out has passed its checksum;
// of a file only the blocks that hold the range are read. One thread only; ranks open one each.
//
// DataLoss means that the checkpoint itself is proven damaged (an index that is missing or says
// what cannot be, a file that is missing, cut short, of another save, or changed) so that another
// checkpoint may do; the message names the file, and of a damaged range its bytes and the parameter
// and elements in them. Unimplemented means a newer version of the format, which may be intact.
// Other codes are the file system's: what it could not read now may be intact, too.
class CheckpointReader {
 public:
  // NotFound if there is no such directory.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const std::string& directory);
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;
  ~CheckpointReader();

  const std::string& directory() const { return directory_; }
  const CheckpointIndex& index() const { return index_; }
  // Null if there is none.
  const CheckpointTensor* Find(absl::string_view parameter, absl::string_view state) const;

  // out[i] = element begin + i of a state, as float32. NotFound if there is none, InvalidArgument
  // if its type does not convert, OutOfRange if the range leaves it.
  absl::Status Read(absl::string_view parameter, absl::string_view state, int64_t begin,
                    absl::Span<float> out);
  // The same in the type it is stored in: `out` has the bytes of whole elements.
  absl::Status ReadBytes(absl::string_view parameter, absl::string_view state, int64_t begin,
                         absl::Span<uint8_t> out);

  // The content of a file that is carried beside the shards (CheckpointSaverOptions::files).
  // NotFound if there is none of this name.
  absl::StatusOr<std::string> ReadCarriedFile(absl::string_view name);
  // Checks them all.
  absl::Status CheckCarriedFiles();

  // Reads and checks every byte. One status for each damaged file or block, at most `limit`; empty:
  // all is well.
  std::vector<absl::Status> Verify(size_t limit = 100);

 private:
  CheckpointReader(std::string directory, CheckpointIndex index)
      : directory_(std::move(directory)), index_(std::move(index)) {}
  struct Place;

  std::string PathOf(int file) const;
  // Open and checked as far as its header goes.
  absl::StatusOr<int> OpenFile(int file);
  absl::Status CheckHeader(int fd, int file);
  // Has the system fetch what follows `begin`, unless it was told to.
  void ReadAhead(int fd, int file, int64_t begin);
  // As pread.
  ssize_t ReadSome(int fd, int file, int64_t begin, absl::Span<uint8_t> out);
  absl::Status ReadFileBytes(int fd, int file, int64_t begin, absl::Span<uint8_t> out);
  // A whole block, checked.
  absl::Status ReadBlock(const Place& place, int64_t block, absl::Span<uint8_t> out);
  // Bytes [begin, begin + out.size()) of a piece.
  absl::Status ReadPiece(const Place& place, int64_t begin, absl::Span<uint8_t> out);
  void CloseFiles();

  const std::string directory_;
  const CheckpointIndex index_;
  std::map<int, int> open_;         // file to descriptor
  std::map<int, int64_t> advised_;  // file to the end of what the system was told to fetch
  // The last block that was wanted in part only: the next range often begins in it.
  const CheckpointPiece* cached_piece_ = nullptr;
  int64_t cached_block_ = 0;
  std::vector<uint8_t> cache_;
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_SHARDED_CHECKPOINT_READER_H_
