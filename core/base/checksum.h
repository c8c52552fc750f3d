// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_BASE_CHECKSUM_H_
#define ZEROTH_CORE_BASE_CHECKSUM_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/xxh3_variant.h"

namespace zeroth {

// XXH3 of 64 bits (Collet, xxHash 0.8): one flipped bit anywhere changes it, and computing it is
// faster than reading memory. It finds damage; it does not stop someone who means to forge.
uint64_t ChecksumOf(absl::Span<const uint8_t> bytes);
inline uint64_t ChecksumOf(absl::string_view text) {
  return ChecksumOf(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

// The checksum of bytes that come one part after the other.
class ChecksumStream {
 public:
  ChecksumStream();
  ChecksumStream(const ChecksumStream&) = delete;
  ChecksumStream& operator=(const ChecksumStream&) = delete;
  void Add(absl::Span<const uint8_t> bytes);
  // Of all that were added: ChecksumOf of them in one piece.
  uint64_t Value() const;

 private:
  // In place, and aligned by hand: GCC's address sanitizer puts locals that must be aligned to 64
  // bytes where they are not.
  uint8_t room_[kXxh3StateBytes + kXxh3StateAlignment];
  void* const state_;
};

// 16 lower-case hexadecimal digits: JSON's numbers do not hold 64 bits everywhere.
std::string ChecksumText(uint64_t checksum);
// The inverse; InvalidArgument quotes what is not that.
absl::StatusOr<uint64_t> ParseChecksum(absl::string_view text);

}  // namespace zeroth

#endif  // ZEROTH_CORE_BASE_CHECKSUM_H_
