// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Files of token ids, which are read on demand, and their writer.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/file/file_descriptor.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/data/token_source.h"

namespace zeroth {

// Opens a NumPy .npy file (format versions 1 to 3) of little-endian integers: uint8, uint16,
// uint32, uint64, int32 or int64. One dimension is a stream; two are rows, used whole.
// InvalidArgument names the file and what is wrong: magic, version, header, element type, order,
// dimensions, emptiness, or a size that differs from the header's. Read also returns
// RandomAccessFile's errors, for example if the file has been truncated since.
absl::StatusOr<std::shared_ptr<const TokenSource>> OpenNpyFile(const std::string& path,
                                                               int32_t vocab_size);

// Opens a token shard of llm.c: 256 little-endian int32 of header (magic, version, token count,
// zeros), then the tokens: uint16 after magic 20240520 version 1 (GPT-2), uint32 after magic
// 20240801 version 7 (Llama 3). A stream. InvalidArgument as above.
absl::StatusOr<std::shared_ptr<const TokenSource>> OpenLlmcFile(const std::string& path,
                                                                int32_t vocab_size);

// Opens an indexed dataset of Megatron-LM, version 1: `path`, which ends in .bin, has the tokens,
// and the file of the same name that ends in .idx describes them (ReadMegatronIndex). A stream of
// all sequences; tokens are read as they are, so a document ends with an end-of-text token only if
// there is one (preprocess_data.py --append-eod). InvalidArgument names the file; the two must have
// the same number of tokens.
absl::StatusOr<std::shared_ptr<const TokenSource>> OpenMegatronFile(const std::string& path,
                                                                    int32_t vocab_size);

// Returns the bytes of any file as ids, a stream. Read has RandomAccessFile's errors.
std::shared_ptr<const TokenSource> BytesAsTokens(RandomAccessFile file);

inline constexpr char kNpyMagic[] = "\x93NUMPY";

// The header of a NumPy .npy file (NEP 1).
struct NpyHeader {
  std::string descr;  // element type, such as "<i4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
  size_t data_begin = 0;  // bytes before the first element
};

// Parses the header at the start of `file`, versions 1 to 3, but does not check the data after it.
// InvalidArgument for a structured element type and for a bad header; the message says what is
// wrong at which byte, without the file's name.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::Span<const uint8_t> file);
// Returns the header of a file of `count` unsigned integers of 2 or 4 bytes. Its length is
// constant.
std::vector<uint8_t> NpyHeaderBytes(size_t token_bytes, int64_t count);

// Length of an llm.c shard's header: 256 little-endian int32 (magic, version, token count, zeros).
inline constexpr size_t kLlmcHeaderBytes = 1024;

struct LlmcHeader {
  int64_t count = 0;       // tokens after the header
  size_t token_bytes = 0;  // 2 (GPT-2 shards) or 4 (Llama 3 shards)
};

// The first bytes of the .idx file of a Megatron-LM dataset.
inline constexpr char kMegatronMagic[] = "MMIDIDX\0\0";

// A Megatron-LM .idx file (megatron/core/datasets/indexed_dataset.py), little-endian: the magic,
// the version (uint64: 1), the code of the tokens' type (uint8), the numbers of sequences and of
// documents' indices (uint64), then arrays of the sequences' lengths in tokens (int32), of their
// byte offsets in the .bin file (int64), of the first sequence of each document and the number of
// sequences (int64), and optionally of the sequences' modes (int8).
struct MegatronIndex {
  int type_code = 0;
  size_t token_bytes = 0;
  int64_t sequences = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
};

// True if `file` begins with kMegatronMagic.
bool HasMegatronMagic(absl::Span<const uint8_t> file);

// Reads and checks all of an .idx file, in pieces of bounded size. InvalidArgument, without the
// file's name, for another magic or version, a type that is not of integers, a size that differs
// from the header's, sequences that do not follow one another in the .bin file, documents that are
// not in order, modes other than text, and for no tokens.
absl::StatusOr<MegatronIndex> ReadMegatronIndex(const RandomAccessFile& file);

// The name of the .idx file of a .bin file, or the reverse.
std::string MegatronIndexPath(const std::string& bin);
std::string MegatronTokensPath(const std::string& idx);

// True if `file` begins with the magic number of a token shard.
bool HasLlmcMagic(absl::Span<const uint8_t> file);

// Checks magic, version, that there are tokens, and that a file of `file_bytes`, of which `head` is
// the beginning, ends with the last of them. `head` has kLlmcHeaderBytes, or all of a shorter file.
// InvalidArgument says what is wrong at which byte, without the file's name.
absl::StatusOr<LlmcHeader> ParseLlmcHeader(absl::Span<const uint8_t> head, size_t file_bytes);
// Returns the header of a shard of `count` tokens of 2 or 4 bytes.
std::vector<uint8_t> LlmcHeaderBytes(size_t token_bytes, int64_t count);

// Returns the name of one of several shards: NAME-00003.bin for NAME.bin. `path` ends in .npy or
// .bin.
std::string TokenShardPath(const std::string& path, int64_t shard);

// Writes a stream of token ids as files that OpenNpyFile and OpenLlmcFile read. The name of a shard
// ends in ".partial" until the shard is complete, so that no reader mistakes a part for the whole.
// Movable. Not thread-safe.
class TokenShardWriter {
 public:
  struct Options {
    // Ends in .npy or .bin (llm.c). Several shards are NAME-00000.bin and so on; one is NAME.bin.
    std::string path;
    // Every id is below this. Ids have 16 bits if this is at most 65536, otherwise 32.
    int32_t vocab_size = 0;
    // The maximum number of tokens of a shard.
    int64_t shard_tokens = int64_t{1} << 30;
  };
  // How much has been written. Another writer can resume here.
  struct Position {
    int64_t shard = 0;
    int64_t tokens_in_shard = 0;
  };

  // InvalidArgument for another ending, or more tokens per shard than the format can express.
  static absl::StatusOr<TokenShardWriter> Create(const Options& options);

  // Cuts off what was written after `position`. DataLoss if less was written.
  absl::Status Resume(const Position& position);
  const Position& position() const { return position_; }

  absl::Status Append(absl::Span<const int32_t> ids);
  // When this returns, everything appended is on stable storage.
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
  FileDescriptor file_;
  std::string partial_;
  std::vector<uint8_t> buffer_;
};

}  // namespace zeroth
