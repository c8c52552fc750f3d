// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "zeroth/core/base/check.h"
#include "zeroth/data/unicode_ranges.h"

namespace zeroth {
namespace {

template <size_t kCount>
bool Contains(const CodeRange (&ranges)[kCount], uint32_t code_point) {
  const CodeRange* const after =
      std::upper_bound(std::begin(ranges), std::end(ranges), code_point,
                       [](uint32_t value, const CodeRange& range) { return value < range.first; });
  return after != std::begin(ranges) && code_point <= std::prev(after)->last;
}

bool IsSpace(uint32_t code_point) {
  switch (code_point) {
    case 0x20:
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return (code_point >= 0x9 && code_point <= 0xD) ||
             (code_point >= 0x2000 && code_point <= 0x200A);
  }
}

CharClass Classify(uint32_t code_point) {
  if (IsSpace(code_point)) return CharClass::kSpace;
  if (Contains(kLetterRanges, code_point)) return CharClass::kLetter;
  if (Contains(kNumberRanges, code_point)) return CharClass::kNumber;
  return CharClass::kOther;
}

bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

}  // namespace

CharClass ClassOf(uint32_t code_point) {
  // Most text is mostly ASCII.
  static const std::array<CharClass, 128> ascii = [] {
    std::array<CharClass, 128> classes{};
    for (uint32_t i = 0; i < classes.size(); ++i) classes[i] = Classify(i);
    return classes;
  }();
  return code_point < ascii.size() ? ascii[code_point] : Classify(code_point);
}

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

}  // namespace zeroth
