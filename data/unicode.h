// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// As much of Unicode as cutting text into words takes.

#ifndef ZEROTH_DATA_UNICODE_H_
#define ZEROTH_DATA_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace zeroth {

// What a word-splitting pattern calls \p{L}, \p{N}, \s, and everything else. Letters and numbers
// are the general categories L* and N* of Unicode 14.0; spaces are the characters with the property
// White_Space.
enum class CharClass : uint8_t { kOther, kLetter, kNumber, kSpace };

CharClass ClassOf(uint32_t code_point);

struct DecodedChar {
  // kInvalid for a byte that begins no valid UTF-8 sequence.
  uint32_t code_point = 0;
  // Bytes taken: 1 to 4, and 1 for an invalid byte.
  size_t length = 0;

  static constexpr uint32_t kInvalid = 0xFFFFFFFF;
};

// The character at the front of `text`, which must not be empty. Overlong forms, surrogates and
// values above U+10FFFF are invalid, as RFC 3629 demands. ClassOf(kInvalid) is kOther.
DecodedChar DecodeUtf8(absl::string_view text);

// Appends the UTF-8 form of a valid code point.
void AppendUtf8(uint32_t code_point, std::string* out);

}  // namespace zeroth

#endif  // ZEROTH_DATA_UNICODE_H_
