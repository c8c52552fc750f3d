// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_BYTE_ALPHABET_H_
#define ZEROTH_DATA_BYTE_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace zeroth {

// GPT-2's spelling of bytes inside vocabulary files: one printable character per byte. Printable
// ASCII and Latin-1 bytes are the character of the same number; the other 68 are, in order, U+0100
// and the following. So a space is U+0120.
std::string BytesToAlphabet(absl::string_view bytes);

// The inverse; nothing if `text` holds a character outside the alphabet.
std::optional<std::string> AlphabetToBytes(absl::string_view text);

}  // namespace zeroth

#endif  // ZEROTH_DATA_BYTE_ALPHABET_H_
