// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/llmc_header.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace zeroth {
namespace {

struct ShardFormat {
  int32_t magic;
  int32_t version;
  size_t token_bytes;
};

constexpr ShardFormat kFormats[] = {{20240520, 1, 2}, {20240801, 7, 4}};

int32_t HeaderWord(absl::Span<const uint8_t> file, size_t index) {
  int32_t word;
  std::memcpy(&word, file.data() + 4 * index, sizeof(word));
  return word;
}

const ShardFormat* FindFormat(int32_t magic) {
  for (const ShardFormat& format : kFormats) {
    if (format.magic == magic) return &format;
  }
  return nullptr;
}

}  // namespace

bool HasLlmcMagic(absl::Span<const uint8_t> file) {
  return file.size() >= 4 && FindFormat(HeaderWord(file, 0)) != nullptr;
}

absl::StatusOr<LlmcHeader> ParseLlmcHeader(absl::Span<const uint8_t> head, size_t file_bytes) {
  if (!HasLlmcMagic(head)) {
    return absl::InvalidArgumentError(absl::StrCat("does not begin with the magic ",
                                                   kFormats[0].magic, " or ", kFormats[1].magic,
                                                   " of llm.c shards"));
  }
  if (file_bytes < kLlmcHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("truncated: ", file_bytes, " bytes, expected a header of ", kLlmcHeaderBytes));
  }
  const ShardFormat& format = *FindFormat(HeaderWord(head, 0));
  if (HeaderWord(head, 1) != format.version) {
    return absl::InvalidArgumentError(absl::StrCat("version ", HeaderWord(head, 1),
                                                   " at byte 4, expected ", format.version,
                                                   " with magic ", format.magic));
  }
  LlmcHeader header;
  header.count = HeaderWord(head, 2);
  header.token_bytes = format.token_bytes;
  if (header.count <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("token count ", header.count, " at byte 8, expected at least 1"));
  }
  const size_t expected = kLlmcHeaderBytes + static_cast<size_t>(header.count) * header.token_bytes;
  if (file_bytes != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_bytes, " bytes, expected ", expected, " for ", header.count,
                     " tokens of ", header.token_bytes, " bytes; is the file truncated?"));
  }
  return header;
}

}  // namespace zeroth
