// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/checksum.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/processor.h"

namespace zeroth {

namespace {

const Xxh3Variant& Xxh3() {
  static const Xxh3Variant& best = HasAvx512F() ? kXxh3Avx512
                                   : HasAvx2()  ? kXxh3Avx2
                                                : kXxh3Portable;
  return best;
}

void* Aligned(uint8_t* room) {
  const uintptr_t beyond = reinterpret_cast<uintptr_t>(room) % kXxh3StateAlignment;
  return room + (kXxh3StateAlignment - beyond);
}

}  // namespace

uint64_t ChecksumOf(absl::Span<const uint8_t> bytes) {
  return Xxh3().hash(bytes.data(), bytes.size());
}

ChecksumStream::ChecksumStream() : state_(Aligned(room_)) { Xxh3().reset(state_); }

void ChecksumStream::Add(absl::Span<const uint8_t> bytes) {
  Xxh3().update(state_, bytes.data(), bytes.size());
}

uint64_t ChecksumStream::Value() const { return Xxh3().digest(state_); }

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
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text.substr(0, 40), "\" is not a checksum, expected 16 hexadecimal digits"));
}

}  // namespace zeroth
