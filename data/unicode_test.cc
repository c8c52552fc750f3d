// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/unicode.h"

#include <array>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

TEST(UnicodeTest, ClassesOfKnownCharacters) {
  for (const uint32_t letter :
       {U'a', U'Z', U'\u00e9', U'\u00df', U'\u03a9', U'\u0416', U'\u05d0', U'\u4e2d', U'\uac00',
        U'\u3042', U'\u02b0', U'\U0001d400', U'\U00020000'}) {
    EXPECT_EQ(ClassOf(letter), CharClass::kLetter) << letter;
  }
  for (const uint32_t number :
       {U'0', U'9', U'\u00b2', U'\u00bd', U'\u0663', U'\u2167', U'\u3007', U'\U0001d7ce'}) {
    EXPECT_EQ(ClassOf(number), CharClass::kNumber) << number;
  }
  for (const uint32_t space : {U'\t', U'\n', U'\v', U'\f', U'\r', U' ', U'\u00a0', U'\u1680',
                               U'\u2003', U'\u2028', U'\u3000'}) {
    EXPECT_EQ(ClassOf(space), CharClass::kSpace) << space;
  }
  EXPECT_EQ(ClassOf(0x85), CharClass::kSpace);
  // Combining marks, emoji, the zero-width space, unassigned and invalid values, and the control
  // characters that C calls spaces in some locales.
  for (const uint32_t other :
       {U'_', U'\'', U'\u0301', U'\u200b', U'\ufeff', U'\U0001f600', U'\U0010ffff'}) {
    EXPECT_EQ(ClassOf(other), CharClass::kOther) << other;
  }
  EXPECT_EQ(ClassOf(0x1C), CharClass::kOther);
  EXPECT_EQ(ClassOf(0), CharClass::kOther);
  EXPECT_EQ(ClassOf(DecodedChar::kInvalid), CharClass::kOther);
}

// The totals of Unicode 14.0.
TEST(UnicodeTest, NumberOfCharactersPerClass) {
  std::array<int, 4> count{};
  for (uint32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    ++count[static_cast<size_t>(ClassOf(code_point))];
  }
  EXPECT_EQ(count[static_cast<size_t>(CharClass::kLetter)], 131756);
  EXPECT_EQ(count[static_cast<size_t>(CharClass::kNumber)], 1791);
  EXPECT_EQ(count[static_cast<size_t>(CharClass::kSpace)], 25);
}

TEST(UnicodeTest, EveryCodePointRoundTrips) {
  for (uint32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    std::string text;
    AppendUtf8(code_point, &text);
    const DecodedChar decoded = DecodeUtf8(text + "x");
    if (code_point >= 0xD800 && code_point <= 0xDFFF) {
      ASSERT_EQ(decoded.code_point, DecodedChar::kInvalid) << code_point;
      ASSERT_EQ(decoded.length, 1u);
      continue;
    }
    ASSERT_EQ(decoded.code_point, code_point);
    ASSERT_EQ(decoded.length, text.size());
    // Cut short, it is invalid.
    for (size_t size = 1; size < text.size(); ++size) {
      ASSERT_EQ(DecodeUtf8(absl::string_view(text).substr(0, size)).code_point,
                DecodedChar::kInvalid);
    }
  }
}

TEST(UnicodeTest, InvalidSequencesAreOneByteLong) {
  for (const char* bytes :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2(\xa1", "\xc3("}) {
    const DecodedChar decoded = DecodeUtf8(bytes);
    EXPECT_EQ(decoded.code_point, DecodedChar::kInvalid);
    EXPECT_EQ(decoded.length, 1u);
  }
}

}  // namespace
}  // namespace zeroth
