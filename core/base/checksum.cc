// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/checksum.h"

#include <xxhash.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/checksum_avx2.h"

namespace zeroth {

uint64_t ChecksumOf(absl::Span<const uint8_t> bytes) {
#ifdef __x86_64__
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return Xxh3WithAvx2(bytes.data(), bytes.size());
#endif
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string ChecksumText(uint64_t checksum) {
  return absl::StrCat(absl::Hex(checksum, absl::kZeroPad16));
}

absl::StatusOr<uint64_t> ParseChecksum(absl::string_view text) {
  uint64_t checksum = 0;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (text.size() != 16 || !(digit || (c >= 'a' && c <= 'f'))) break;
    checksum = checksum * 16 + static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  // A text that broke the loop reads back as something else.
  if (ChecksumText(checksum) == text) return checksum;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text.substr(0, 40), "\" is no checksum, expected 16 hexadecimal digits"));
}

}  // namespace zeroth
