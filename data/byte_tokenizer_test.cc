// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/data/tokenizer.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ByteTokenizerTest, BytesAreIds) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.vocab_size(), 257);
  EXPECT_EQ(tokenizer.end_of_text(), 256);
  EXPECT_THAT(*tokenizer.Encode(std::string("a\xff\0", 3)), ElementsAre(97, 255, 0));
  EXPECT_TRUE(tokenizer.Encode("")->empty());
}

TEST(ByteTokenizerTest, LongTextRoundTripsInPieces) {
  const ByteTokenizer tokenizer;
  std::string text;
  for (int i = 0; i < 10'000; ++i) text.push_back(static_cast<char>(i * 7 + i / 256));
  size_t pieces = 0;
  std::vector<int32_t> ids;
  ASSERT_TRUE(tokenizer
                  .EncodeTo(text, false,
                            [&](absl::Span<const int32_t> piece) {
                              ++pieces;
                              ids.insert(ids.end(), piece.begin(), piece.end());
                            })
                  .ok());
  EXPECT_GT(pieces, 1u);
  EXPECT_EQ(ids.size(), text.size());
  EXPECT_EQ(*tokenizer.Decode(ids), text);
}

TEST(ByteTokenizerTest, DecodesTheEndAndRefusesStrangers) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(*tokenizer.Decode({104, 256, 105}), "h<|endoftext|>i");
  EXPECT_EQ(*tokenizer.Decode({104, 255}), "h\xff");
  EXPECT_EQ(*tokenizer.DecodeUtf8Text({104, 255}), "h\uFFFD");
  for (const int32_t id : {-1, 257}) {
    const auto decoded = tokenizer.Decode({104, id});
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(decoded.status().message()),
                HasSubstr("at position 1, expected 0 to 256"));
  }
}

}  // namespace
}  // namespace zeroth
