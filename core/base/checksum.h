// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/xxh3_variant.h"

namespace zeroth {

// Returns the 64-bit XXH3 (Collet, xxHash 0.8). A single flipped bit changes it, and computing it
// is faster than reading memory. It detects damage, but does not protect against forgery.
uint64_t ChecksumOf(absl::Span<const uint8_t> bytes);
inline uint64_t ChecksumOf(absl::string_view text) {
  return ChecksumOf(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

// The checksum of bytes that are added in parts.
class ChecksumStream {
 public:
  ChecksumStream();
  ChecksumStream(const ChecksumStream&) = delete;
  ChecksumStream& operator=(const ChecksumStream&) = delete;
  void Add(absl::Span<const uint8_t> bytes);
  // Returns the checksum of all bytes added so far, equal to ChecksumOf of them.
  uint64_t Value() const;

 private:
  // In place, and aligned by hand, because GCC's address sanitizer misaligns local variables that
  // need an alignment of 64 bytes.
  uint8_t room_[kXxh3StateBytes + kXxh3StateAlignment];
  void* const state_;
};

// Returns 16 lower-case hexadecimal digits, because not all JSON readers keep 64 bits of a number.
std::string ChecksumText(uint64_t checksum);
// The inverse of ChecksumText. InvalidArgument quotes any other text.
absl::StatusOr<uint64_t> ParseChecksum(absl::string_view text);

}  // namespace zeroth
