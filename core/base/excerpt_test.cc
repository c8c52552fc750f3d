// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/excerpt.h"

#include <string>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

TEST(ExcerptTest, ShortTextStaysAndLongTextIsCutBetweenCharacters) {
  EXPECT_EQ(Excerpt(""), "\"\"");
  EXPECT_EQ(Excerpt("caf\xc3\xa9 \"x\"\n"), "\"caf\xc3\xa9 \\\"x\\\"\\n\"");
  EXPECT_EQ(Excerpt("\x1f\x8b\x08"), "\"\\x1f\\x8b\\x08\"");
  EXPECT_EQ(Excerpt("abc\xc3\xa9", 4), "\"abc...\"");
  EXPECT_EQ(Excerpt("abc\xc3\xa9", 5), "\"abc\xc3\xa9\"");
  EXPECT_EQ(Excerpt(std::string(3'000'000, 'a')), "\"" + std::string(60, 'a') + "...\"");
  // An escaped byte takes four characters.
  EXPECT_LE(Excerpt(std::string(1000, '\xff')).size(), 4 * kExcerptBytes + 5);
}

TEST(ExcerptTest, ShortenLeavesTextAsItIs) {
  EXPECT_EQ(Shorten("a\"\n"), "a\"\n");
  EXPECT_EQ(Shorten("abc\xc3\xa9", 4), "abc...");
}

TEST(ExcerptTest, AroundAPlaceOnlyItsLineIsQuoted) {
  EXPECT_EQ(ExcerptAround("one\ntwo\nthree", 5), "\"two\"");
  EXPECT_EQ(ExcerptAround("one\ntwo\nthree", 7), "\"two\"");  // the line's end
  EXPECT_EQ(ExcerptAround("one\ntwo\nthree", 99), "\"three\"");
  EXPECT_EQ(ExcerptAround("", 0), "\"\"");
  const std::string before(1000, 'a');
  EXPECT_EQ(ExcerptAround(before + "!" + before, 1000),
            "...\"" + std::string(40, 'a') + "!" + std::string(19, 'a') + "...\"");
  std::string accents;
  for (int i = 0; i < 500; ++i) accents += "\xc3\xa9";
  const std::string shown = ExcerptAround("x" + accents, 500);
  EXPECT_EQ(shown.find("\\x"), std::string::npos) << shown;
  EXPECT_LT(shown.size(), 80u);
}

}  // namespace
}  // namespace zeroth
