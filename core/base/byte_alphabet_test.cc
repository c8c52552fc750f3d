// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <set>
#include <string>

#include "gtest/gtest.h"

#include "zeroth/core/base/unicode.h"

namespace zeroth {
namespace {

TEST(ByteAlphabetTest, KnownSpellings) {
  EXPECT_EQ(BytesToAlphabet("Hi<|x|>~"), "Hi<|x|>~");
  EXPECT_EQ(BytesToAlphabet(" a\n\t"), "\u0120a\u010a\u0109");
  EXPECT_EQ(BytesToAlphabet(std::string(1, '\0')), "\u0100");
  EXPECT_EQ(BytesToAlphabet("\x7f"), "\u0121");
  EXPECT_EQ(BytesToAlphabet("\xa0"), "\u0142");
  EXPECT_EQ(BytesToAlphabet("\xad"), "\u0143");
  EXPECT_EQ(BytesToAlphabet("\xc3\xa9"), "\u00c3\u00a9");
  EXPECT_EQ(BytesToAlphabet("\xff"), "\u00ff");
}

TEST(ByteAlphabetTest, IsABijection) {
  std::set<std::string> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    const std::string text = BytesToAlphabet(bytes);
    EXPECT_TRUE(seen.insert(text).second) << byte;
    EXPECT_EQ(AlphabetToBytes(text), bytes) << byte;
  }
}

TEST(ByteAlphabetTest, RefusesOtherCharacters) {
  for (const char* text :
       {" ", "a b", "\n", "\u00a0", "\u00ad", "\u0144", "\u4e2d", "\xff", "\x7f"}) {
    EXPECT_EQ(AlphabetToBytes(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace zeroth
