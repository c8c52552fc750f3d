// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_BYTE_ALPHABET_H_
#define ZEROTH_DATA_BYTE_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace zeroth {

// Spells bytes as GPT-2's vocabulary files do: one printable character per byte. Printable ASCII
// and Latin-1 bytes are the characters of the same number; the other 68 are U+0100 and the
// following, in order. So a space is U+0120.
std::string BytesToAlphabet(absl::string_view bytes);

// The inverse; empty if `text` has a character outside the alphabet.
std::optional<std::string> AlphabetToBytes(absl::string_view text);

}  // namespace zeroth

#endif  // ZEROTH_DATA_BYTE_ALPHABET_H_
