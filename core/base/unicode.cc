// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/unicode.h"

#include <array>
#include <cstring>

#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

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

DecodedChar DecodeUtf8(absl::string_view text) {
  ZEROTH_CHECK(!text.empty());
  const DecodedChar invalid = {DecodedChar::kInvalid, 1};
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return invalid;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) return invalid;
  uint32_t code_point = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return invalid;
    code_point = code_point << 6 | (static_cast<uint8_t>(text[i]) & 0x3F);
  }
  const bool overlong =
      (length == 3 && code_point < 0x800) || (length == 4 && code_point < 0x10000);
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (overlong || surrogate || code_point > 0x10FFFF) return invalid;
  return {code_point, length};
}

size_t ValidUtf8Length(absl::string_view text) {
  size_t place = 0;
  while (place < text.size()) {
    uint64_t eight = 0;
    if (text.size() - place >= sizeof(eight)) {
      std::memcpy(&eight, text.data() + place, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        place += sizeof(eight);
        continue;
      }
    }
    const DecodedChar next = DecodeUtf8(text.substr(place));
    if (next.code_point == DecodedChar::kInvalid) break;
    place += next.length;
  }
  return place;
}

std::string ReplaceInvalidUtf8(absl::string_view text) {
  std::string out;
  while (true) {
    const size_t valid = ValidUtf8Length(text);
    out.append(text.data(), valid);
    text.remove_prefix(valid);
    if (text.empty()) return out;
    AppendUtf8(0xFFFD, &out);
    // The longest prefix of a valid character is replaced as one.
    const auto byte = [&text](size_t i) { return static_cast<uint8_t>(text[i]); };
    const uint8_t lead = byte(0);
    const size_t length = lead < 0xC2 || lead > 0xF4 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    size_t bad = 1;
    if (length > 2 && text.size() > 1 && byte(1) >= least && byte(1) <= most) {
      bad = 2;
      if (length > 3 && text.size() > 2 && IsContinuation(text[2])) bad = 3;
    }
    text.remove_prefix(bad);
  }
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  ZEROTH_CHECK(code_point <= 0x10FFFF);
  const auto tail = [code_point](int shift) {
    return static_cast<char>(0x80 | ((code_point >> shift) & 0x3F));
  };
  if (code_point < 0x80) {
    out->push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out->append({static_cast<char>(0xC0 | (code_point >> 6)), tail(0)});
  } else if (code_point < 0x10000) {
    out->append({static_cast<char>(0xE0 | (code_point >> 12)), tail(6), tail(0)});
  } else {
    out->append({static_cast<char>(0xF0 | (code_point >> 18)), tail(12), tail(6), tail(0)});
  }
}

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
