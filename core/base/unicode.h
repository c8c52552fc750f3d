// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// UTF-8 and GPT-2's byte alphabet: functions that our libraries lack.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace zeroth {

struct DecodedChar {
  // kInvalid for a byte that begins no valid UTF-8 sequence.
  uint32_t code_point = 0;
  // Bytes consumed: 1 to 4, and 1 for an invalid byte.
  size_t length = 0;

  static constexpr uint32_t kInvalid = 0xFFFFFFFF;
};

// Decodes the character at the front of `text`, which must not be empty. Overlong forms, surrogates
// and values above U+10FFFF are invalid, as RFC 3629 demands.
DecodedChar DecodeUtf8(absl::string_view text);

// Returns the number of bytes at the front of `text` that are valid UTF-8.
size_t ValidUtf8Length(absl::string_view text);

// Replaces each maximal prefix of a truncated character, and each other byte that is not UTF-8, by
// U+FFFD, as Unicode 15 (3.9) advises and Rust's from_utf8_lossy does.
std::string ReplaceInvalidUtf8(absl::string_view text);

// Appends the UTF-8 form of a valid code point.
void AppendUtf8(uint32_t code_point, std::string* out);

// Spells bytes as GPT-2's vocabulary files do: one printable character per byte. Printable ASCII
// and Latin-1 bytes are the characters of the same number; the other 68 are U+0100 and the
// following, in order. So a space is U+0120.
std::string BytesToAlphabet(absl::string_view bytes);

// The inverse; empty if `text` has a character outside the alphabet.
std::optional<std::string> AlphabetToBytes(absl::string_view text);

}  // namespace zeroth
