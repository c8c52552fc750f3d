// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/byte_alphabet.h"

#include <array>

#include "zeroth/data/unicode.h"

namespace zeroth {
namespace {

constexpr uint32_t kFirstSubstitute = 0x100;
constexpr uint32_t kSubstitutes = 68;

constexpr bool IsPrintable(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

struct Alphabet {
  std::array<uint16_t, 256> code_point_of_byte{};
  std::array<int16_t, kFirstSubstitute + kSubstitutes> byte_of_code_point{};
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.byte_of_code_point) byte = -1;
  uint32_t substitute = kFirstSubstitute;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t code_point = IsPrintable(byte) ? byte : substitute++;
    alphabet.code_point_of_byte[byte] = static_cast<uint16_t>(code_point);
    alphabet.byte_of_code_point[code_point] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

std::string BytesToAlphabet(absl::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    AppendUtf8(kAlphabet.code_point_of_byte[static_cast<uint8_t>(byte)], &text);
  return text;
}

std::optional<std::string> AlphabetToBytes(absl::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const DecodedChar next = DecodeUtf8(text);
    if (next.code_point >= kAlphabet.byte_of_code_point.size()) return std::nullopt;
    const int16_t byte = kAlphabet.byte_of_code_point[next.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    text.remove_prefix(next.length);
  }
  return bytes;
}

}  // namespace zeroth
