// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/data/byte_tokenizer.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"
#include "zeroth/train/model_source.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

TEST(TokenIdsTest, BytesHaveTheirOwn) {
  const ByteTokenizer bytes;
  const Json expected = {{"bos_token_id", 256}, {"eos_token_id", 256}};
  EXPECT_EQ(TokenIds(Json::object(), &bytes), expected);
  // A model of words that goes on with bytes.
  EXPECT_EQ(TokenIds({{"eos_token_id", 50256}, {"pad_token_id", 50257}}, &bytes), expected);
}

TEST(TokenIdsTest, ATextBeginsWithTheTokenizersOwn) {
  const auto llama = OpenTokenizer("tests/testdata/tokenizers/llama3").value();
  ASSERT_NE(llama->prefix().front(), llama->end_of_text());
  EXPECT_EQ(TokenIds(Json::object(), llama.get()), (Json{{"bos_token_id", llama->prefix().front()},
                                                         {"eos_token_id", llama->end_of_text()}}));
}

TEST(TokenIdsTest, TheSourcesAreKept) {
  const Json source = {{"bos_token_id", 128000},
                       {"eos_token_id", {128001, 128009}},
                       {"pad_token_id", nullptr},
                       {"vocab_size", 128256}};
  Json expected = source;
  expected.erase("vocab_size");
  EXPECT_EQ(TokenIds(source, nullptr), expected);
}

TEST(TokenIdsTest, WhatIsUnknownIsNull) {
  EXPECT_EQ(TokenIds(Json::object(), nullptr),
            (Json{{"bos_token_id", nullptr}, {"eos_token_id", nullptr}}));
}

}  // namespace
}  // namespace zeroth
