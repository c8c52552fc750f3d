// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/gpt2_split.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/data/unicode.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Split(absl::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t length = Gpt2WordLength(text);
    words.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return words;
}

TEST(Gpt2SplitTest, KnownSplits) {
  EXPECT_THAT(Split("Hello world"), ElementsAre("Hello", " world"));
  EXPECT_THAT(Split("I'll say we've won't"),
              ElementsAre("I", "'ll", " say", " we", "'ve", " won", "'t"));
  EXPECT_THAT(Split("it's'd"), ElementsAre("it", "'s", "'d"));
  EXPECT_THAT(Split("CAN'T"), ElementsAre("CAN", "'", "T"));
  EXPECT_THAT(Split(" 's"), ElementsAre(" '", "s"));
  EXPECT_THAT(Split("a''t"), ElementsAre("a", "''", "t"));
  EXPECT_THAT(Split("  two"), ElementsAre(" ", " two"));
  EXPECT_THAT(Split("end  "), ElementsAre("end", "  "));
  EXPECT_THAT(Split("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(Split("a\n  b"), ElementsAre("a", "\n ", " b"));
  EXPECT_THAT(Split("\t\tx = 10;"), ElementsAre("\t", "\t", "x", " =", " 10", ";"));
  EXPECT_THAT(Split("x 123abc"), ElementsAre("x", " 123", "abc"));
  EXPECT_THAT(Split("v1.5!?"), ElementsAre("v", "1", ".", "5", "!?"));
  EXPECT_THAT(Split(" "), ElementsAre(" "));
  EXPECT_THAT(Split("'"), ElementsAre("'"));
  EXPECT_THAT(Split("na\u00efve \u4e2d\u6587"), ElementsAre("na\u00efve", " \u4e2d\u6587"));
  EXPECT_THAT(Split("a\u00a0b"), ElementsAre("a", "\u00a0", "b"));
  EXPECT_THAT(Split("e\u0301t"), ElementsAre("e", "\u0301", "t"));
  EXPECT_THAT(Split("2\u00bd \U0001f600\U0001f600!"),
              ElementsAre("2\u00bd", " \U0001f600\U0001f600!"));
  EXPECT_THAT(Split("a\xff\xfe z"), ElementsAre("a", "\xff\xfe", " z"));
}

// The pattern tried literally, alternative by alternative, on an array of characters; returns the
// characters matched.
size_t MatchPattern(const std::vector<std::string>& chars, const std::vector<CharClass>& classes,
                    size_t begin) {
  const size_t end = chars.size();
  for (const std::string contraction : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    std::string joined;
    for (size_t i = begin; i < end && i < begin + contraction.size(); ++i) joined += chars[i];
    if (joined == contraction) return contraction.size();
  }
  for (const CharClass wanted : {CharClass::kLetter, CharClass::kNumber, CharClass::kOther}) {
    for (const size_t space : {1, 0}) {
      if (space == 1 && chars[begin] != " ") continue;
      size_t stop = begin + space;
      while (stop < end && classes[stop] == wanted) ++stop;
      if (stop > begin + space) return stop - begin;
    }
  }
  size_t stop = begin;
  while (stop < end && classes[stop] == CharClass::kSpace) ++stop;
  for (size_t shorter = stop; shorter > begin; --shorter) {
    const bool before_non_space = shorter < end && classes[shorter] != CharClass::kSpace;
    if (!before_non_space) return shorter - begin;
  }
  return stop - begin;
}

TEST(Gpt2SplitTest, AgreesWithThePatternOnRandomText) {
  const std::vector<std::string> alphabet = {
      "s",      "t",      "r",      "e",      "v", "m",      "l",          "d",   "X",
      "\u00e9", "\u4e2d", "1",      "\u00bd", "'", "'",      " ",          " ",   " ",
      "\n",     "\t",     "\u00a0", "\u3000", "!", "\u0301", "\U0001f600", "\xff"};
  std::mt19937 random(11);
  for (int trial = 0; trial < 20'000; ++trial) {
    std::vector<std::string> chars;
    std::vector<CharClass> classes;
    std::string text;
    for (uint32_t i = random() % 12; i > 0; --i) {
      chars.push_back(alphabet[random() % alphabet.size()]);
      classes.push_back(ClassOf(DecodeUtf8(chars.back()).code_point));
      text += chars.back();
    }
    std::vector<std::string> expected;
    for (size_t begin = 0; begin < chars.size();) {
      expected.emplace_back();
      for (size_t end = begin + MatchPattern(chars, classes, begin); begin < end; ++begin) {
        expected.back() += chars[begin];
      }
    }
    ASSERT_EQ(Split(text), expected) << text;
  }
}

}  // namespace
}  // namespace zeroth
