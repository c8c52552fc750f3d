// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/unicode.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

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

TEST(UnicodeTest, ValidLengthEndsAtTheFirstBadByte) {
  const std::string good = "plain ascii, \u00e9, \u4e2d and \U0001f600; more than eight bytes";
  EXPECT_EQ(ValidUtf8Length(good), good.size());
  EXPECT_EQ(ValidUtf8Length(""), 0u);
  for (size_t place = 0; place <= good.size(); ++place) {
    std::string bad = good;
    if (place < good.size() && (bad[place] & 0xC0) == 0x80) continue;
    bad.insert(place, "\xff");
    ASSERT_EQ(ValidUtf8Length(bad), place);
  }
}

// Table 3-8 and the examples around it in chapter 3.9 of the Unicode Standard.
TEST(UnicodeTest, WhatIsInvalidIsReplacedByMaximalSubparts) {
  const auto replaced = [](absl::string_view text) {
    std::string out;
    // One character to read, instead of three bytes.
    for (const char c : ReplaceInvalidUtf8(text)) out.push_back(c);
    for (size_t at; (at = out.find("\uFFFD")) != std::string::npos;) out.replace(at, 3, "?");
    return out;
  };
  EXPECT_EQ(replaced("a\u00e9b"), "a\u00e9b");
  EXPECT_EQ(replaced("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), "????????A");
  EXPECT_EQ(replaced("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), "????????A");
  EXPECT_EQ(replaced("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), "?????A??B");
  EXPECT_EQ(replaced("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "????A");
}

}  // namespace
}  // namespace zeroth
