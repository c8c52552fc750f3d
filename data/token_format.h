// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The headers of the two kinds of token files: NumPy's .npy files and llm.c's shards.

#ifndef ZEROTH_DATA_TOKEN_FORMAT_H_
#define ZEROTH_DATA_TOKEN_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace zeroth {

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
// The header of a file of `count` unsigned integers of 2 or 4 bytes. Its length is constant.
std::vector<uint8_t> NpyHeaderBytes(size_t token_bytes, int64_t count);

// Length of an llm.c shard's header: 256 little-endian int32 (magic, version, token count, zeros).
inline constexpr size_t kLlmcHeaderBytes = 1024;

struct LlmcHeader {
  int64_t count = 0;       // tokens after the header
  size_t token_bytes = 0;  // 2 (GPT-2 shards) or 4 (Llama 3 shards)
};

// True if `file` begins with the magic number of a token shard.
bool HasLlmcMagic(absl::Span<const uint8_t> file);

// Checks magic, version, that there are tokens, and that a file of `file_bytes`, of which `head` is
// the beginning, ends with the last of them. `head` has kLlmcHeaderBytes, or all of a shorter file.
// InvalidArgument says what is wrong at which byte, without the file's name.
absl::StatusOr<LlmcHeader> ParseLlmcHeader(absl::Span<const uint8_t> head, size_t file_bytes);
// The header of a shard of `count` tokens of 2 or 4 bytes.
std::vector<uint8_t> LlmcHeaderBytes(size_t token_bytes, int64_t count);

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKEN_FORMAT_H_
