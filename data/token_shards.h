// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKEN_SHARDS_H_
#define ZEROTH_DATA_TOKEN_SHARDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace zeroth {

// Returns the name of one of several shards: NAME-00003.bin for NAME.bin. `path` ends in .npy or
// .bin.
std::string TokenShardPath(const std::string& path, int64_t shard);

// Writes a stream of token ids as files that token_file.h reads. The name of a shard ends in
// ".partial" until the shard is complete, so that no reader takes a part for the whole. Movable.
// Not thread-safe.
class TokenShardWriter {
 public:
  struct Options {
    // Ends in .npy or .bin (llm.c). Several shards are NAME-00000.bin and so on; one is NAME.bin.
    std::string path;
    // Every id is below this. Ids take 16 bits if this is at most 65536, otherwise 32.
    int32_t vocab_size = 0;
    // Most tokens of a shard.
    int64_t shard_tokens = int64_t{1} << 30;
  };
  // How much has been written. Another writer can resume here.
  struct Position {
    int64_t shard = 0;
    int64_t tokens_in_shard = 0;
  };

  // InvalidArgument for another ending, or more tokens per shard than the format can express.
  static absl::StatusOr<TokenShardWriter> Create(const Options& options);
  TokenShardWriter(TokenShardWriter&& other) noexcept;
  TokenShardWriter& operator=(TokenShardWriter&&) = delete;
  ~TokenShardWriter();

  // Cuts off what was written after `position`. DataLoss if less was written.
  absl::Status Resume(const Position& position);
  const Position& position() const { return position_; }

  absl::Status Append(absl::Span<const int32_t> ids);
  // When this returns, everything that was appended is on stable storage.
  absl::Status Flush();
  // Completes the last shard. FailedPrecondition if there is no token at all.
  absl::Status Finish();

 private:
  explicit TokenShardWriter(const Options& options) : options_(options) {}
  bool is_npy() const;
  size_t token_bytes() const { return options_.vocab_size <= 65536 ? 2 : 4; }
  // The header of the current shard, of a length that does not depend on the number of tokens.
  std::vector<uint8_t> Header() const;
  std::string PathOf(int64_t shard) const { return TokenShardPath(options_.path, shard); }
  absl::Status OpenShard();
  absl::Status CloseShard();

  Options options_;
  Position position_;
  int fd_ = -1;
  std::string partial_;
  std::vector<uint8_t> buffer_;
};

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKEN_SHARDS_H_
