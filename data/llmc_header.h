// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_LLMC_HEADER_H_
#define ZEROTH_DATA_LLMC_HEADER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace zeroth {

// The 256 little-endian int32 at the start of an llm.c token shard: magic, version, token count,
// zeros.
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

}  // namespace zeroth

#endif  // ZEROTH_DATA_LLMC_HEADER_H_
