// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/text_generation.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/data/tokenizer.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

TEST(PromptTokensTest, BeginAsTheTokenizerSays) {
  const ByteTokenizer bytes;
  EXPECT_EQ(PromptTokens(bytes, "ab").value(), (std::vector<int32_t>{'a', 'b'}));
  EXPECT_EQ(PromptTokens(bytes, "").value(), (std::vector<int32_t>{bytes.end_of_text()}));
  const auto llama = OpenTokenizer("tests/testdata/tokenizers/llama3").value();
  ASSERT_EQ(llama->prefix().size(), 1u);
  EXPECT_EQ(PromptTokens(*llama, "").value(), (std::vector<int32_t>{llama->prefix()[0]}));
  EXPECT_EQ(PromptTokens(*llama, "a").value().size(), 2u);
}

TEST(DecodeContinuationTest, KeepsTheSpaceInFrontOfAWord) {
  const auto llama = OpenTokenizer("tests/testdata/tokenizers/llama2").value();
  const std::vector<int32_t> prompt = PromptTokens(*llama, "the").value();
  const std::vector<int32_t> both = PromptTokens(*llama, "the cat and").value();
  ASSERT_GT(both.size(), prompt.size());
  ASSERT_TRUE(std::equal(prompt.begin(), prompt.end(), both.begin()));
  const auto more = absl::MakeConstSpan(both).subspan(prompt.size());
  EXPECT_EQ(llama->Decode(more).value(), "cat and");
  EXPECT_EQ(DecodeContinuation(*llama, prompt, more).value(), " cat and");
}

TEST(StopTokensTest, AreThoseOfTheTokenizerAndOfTheModel) {
  const auto llama = OpenTokenizer("tests/testdata/tokenizers/llama3").value();
  const int32_t end = llama->end_of_text();
  EXPECT_EQ(StopTokens({}, *llama), std::vector<int32_t>{end});
  EXPECT_EQ(StopTokens({{"eos_token_id", 7}}, *llama), (std::vector<int32_t>{end, 7}));
  EXPECT_EQ(StopTokens({{"eos_token_id", {7, 9}}}, *llama), (std::vector<int32_t>{end, 7, 9}));
  EXPECT_EQ(StopTokens({{"eos_token_id", nullptr}}, *llama), std::vector<int32_t>{end});
  const ByteTokenizer bytes;
  EXPECT_EQ(StopTokens({{"eos_token_id", 7}}, bytes), std::vector<int32_t>{bytes.end_of_text()});
}

TEST(PrintableTest, KeepsTextAndEscapesTheRest) {
  EXPECT_EQ(Printable("tab\tnewline\n~"), "tab\tnewline\n~");
  EXPECT_EQ(Printable("\x1b[2J\x07"), "\\x1b[2J\\x07");
  EXPECT_EQ(Printable("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  // Cut short, overlong, a surrogate, beyond Unicode, a control character of two bytes.
  EXPECT_EQ(Printable("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(Printable("\xc0\x80"), "\\xc0\\x80");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xc2\\x9b");
}

}  // namespace
}  // namespace zeroth
