// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kVocab[] = R"({"a": 0, "b": 1, "\u0120": 2, "ab": 3, "<|endoftext|>": 4})";
constexpr char kMerges[] = "#version: 0.2\na b\n";

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(GgufTokenizerTest, VocabAndMergesThereAndBack) {
  const TemporaryDirectory dir;
  dir.Write("vocab.json", kVocab);
  dir.Write("merges.txt", kMerges);
  auto vocabulary = ReadHfVocabulary(dir.path());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  ASSERT_TRUE(vocabulary->has_value());
  GgufMetadata metadata;
  const absl::Status set = SetVocabulary(**vocabulary, 7, &metadata);
  ASSERT_TRUE(set.ok()) << set;
  EXPECT_EQ(*metadata.GetString("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(*metadata.GetString("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(
      **metadata.GetStrings("tokenizer.ggml.tokens"),
      (std::vector<std::string>{"a", "b", "\xc4\xa0", "ab", "<|endoftext|>", "[PAD5]", "[PAD6]"}));
  EXPECT_EQ(*metadata.GetInts("tokenizer.ggml.token_type"),
            (std::vector<int64_t>{1, 1, 1, 1, 3, 5, 5}));
  EXPECT_EQ(**metadata.GetStrings("tokenizer.ggml.merges"), (std::vector<std::string>{"a b"}));
  EXPECT_EQ(*metadata.GetInt("tokenizer.ggml.eos_token_id"), 4);
  const auto read = VocabularyOf(metadata);
  ASSERT_TRUE(read.ok()) << read.status();
  const auto files = HfTokenizerFiles(**read);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(Json::parse(files->at("vocab.json")), Json::parse(kVocab)) << "without the padding";
  EXPECT_EQ(files->at("merges.txt"), kMerges);
  EXPECT_EQ(Json::parse(files->at("tokenizer_config.json"))["eos_token"], "<|endoftext|>");
}

Json TokenizerJson(const Json& pre_tokenizer) {
  return {{"added_tokens",
           {{{"id", 3}, {"content", "<|begin|>"}, {"special", true}},
            {{"id", 4}, {"content", "tool"}, {"special", false}}}},
          {"pre_tokenizer", pre_tokenizer},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}},
            {"merges", Json::array({Json::array({"a", "b"})})}}}};
}

// Llama 3's cuts, and with `digits` of "\\p{N}" Qwen 2's.
Json Llama3Cuts(const std::string& digits = "\\p{N}{1,3}") {
  const std::string regex = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" + digits +
                            "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}},
            {{"type", "ByteLevel"}, {"use_regex", false}}}}};
}

TEST(GgufTokenizerTest, ReadsTokenizerJson) {
  const TemporaryDirectory dir;
  dir.Write("tokenizer.json", TokenizerJson(Llama3Cuts()).dump());
  dir.Write("vocab.json", "not read when tokenizer.json is there");
  const auto vocabulary = ReadHfVocabulary(dir.path());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ((*vocabulary)->pre, "llama-bpe");
  EXPECT_EQ((*vocabulary)->tokens, (std::vector<std::string>{"a", "b", "ab", "<|begin|>", "tool"}));
  EXPECT_EQ((*vocabulary)->types[3], GgufTokenType::kControl);
  EXPECT_EQ((*vocabulary)->types[4], GgufTokenType::kUserDefined);
  EXPECT_EQ((*vocabulary)->merges, (std::vector<std::string>{"a b"}));
  EXPECT_EQ(HfTokenizerFiles(**vocabulary).status().code(), absl::StatusCode::kUnimplemented);
  Json qwen2 = TokenizerJson(Llama3Cuts("\\p{N}"));
  qwen2["normalizer"] = {{"type", "NFC"}};
  dir.Write("tokenizer.json", qwen2.dump());
  EXPECT_EQ((*ReadHfVocabulary(dir.path()))->pre, "qwen2");
  dir.Write("tokenizer.json", TokenizerJson({{"type", "ByteLevel"}}).dump());
  EXPECT_EQ((*ReadHfVocabulary(dir.path()))->pre, "gpt-2");
}

TEST(GgufTokenizerTest, RefusesOtherTokenizersAndDamagedFiles) {
  const TemporaryDirectory dir;
  EXPECT_FALSE((*ReadHfVocabulary(dir.path())).has_value()) << "no files, no vocabulary";
  const auto message = [&](const Json& json) {
    dir.Write("tokenizer.json", json.dump());
    return Message(ReadHfVocabulary(dir.path()).status());
  };
  const Json good = TokenizerJson(Llama3Cuts());
  const auto with = [&](const char* pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return json;
  };
  EXPECT_EQ(message(good), "");
  EXPECT_THAT(message(with("/model/type", "Unigram")),
              HasSubstr("a tokenizer of type \"Unigram\""));
  EXPECT_THAT(message(with("/model/type", 3)), HasSubstr("a tokenizer of type 3"));
  EXPECT_THAT(message(with("/model/byte_fallback", true)), HasSubstr("after SentencePiece"));
  EXPECT_THAT(message(with("/model", 3)), HasSubstr("expected an object \"model\""));
  EXPECT_THAT(message(with("/pre_tokenizer/pretokenizers/0/pattern/Regex", ".")),
              HasSubstr("neither GPT-2's nor Llama 3's nor Qwen 2's"));
  EXPECT_EQ(message(with("/normalizer", Json())), "");
  for (const Json& wrong : {Json({{"type", "Lowercase"}}), Json(1), Json::object()}) {
    EXPECT_THAT(message(with("/normalizer", wrong)), HasSubstr("expected null or NFC"));
  }
  for (const Json& wrong : {Json(), Json(1), Json("x"), Json::array({1, 2}), Json::object()}) {
    EXPECT_THAT(message(with("/pre_tokenizer", wrong)), HasSubstr("neither GPT-2's"));
    EXPECT_THAT(message(with("/pre_tokenizer/pretokenizers", wrong)), HasSubstr("neither GPT-2's"));
    EXPECT_THAT(message(with("/pre_tokenizer/pretokenizers/0", wrong)), HasSubstr("neither"));
  }
  EXPECT_THAT(message(with("/model/vocab/a", 2)), HasSubstr("have the same id, 2"));
  EXPECT_THAT(message(with("/model/vocab/a", -1)), HasSubstr("has the id -1"));
  EXPECT_THAT(message(with("/model/vocab/a", 1e300)), HasSubstr("has the id 1e+300"));
  EXPECT_THAT(message(with("/model/vocab/a", 9)), HasSubstr("no token has the id 0"));
  EXPECT_THAT(message(with("/model/vocab", "a")), HasSubstr("an object from tokens to ids"));
  EXPECT_THAT(message(with("/model/merges/0", "ab")), HasSubstr("merge \"ab\""));
  EXPECT_THAT(message(with("/model/merges", Json::object())), HasSubstr("expected an array"));
  EXPECT_THAT(message(with("/model/merges/0", 7)), HasSubstr("strings or pairs"));
  EXPECT_THAT(message(with("/added_tokens/0", 7)), HasSubstr("added_tokens: expected"));
  const TemporaryDirectory sentence_piece;
  sentence_piece.Write("tokenizer.model", "x");
  EXPECT_THAT(Message(ReadHfVocabulary(sentence_piece.path()).status()),
              HasSubstr("SentencePiece"));
}

TEST(GgufTokenizerTest, HoldsMetadataAgainstThemselves) {
  GgufMetadata metadata;
  EXPECT_FALSE((*VocabularyOf(metadata)).has_value());
  SetNoVocabulary(&metadata);
  EXPECT_FALSE((*VocabularyOf(metadata)).has_value());
  ASSERT_TRUE(SetVocabulary(ByteVocabulary(), 257, &metadata).ok());
  ASSERT_TRUE((*VocabularyOf(metadata)).has_value());
  const auto message = [&](const char* key, GgufValue value) {
    GgufMetadata changed = metadata;
    changed.Set(key, std::move(value));
    return Message(VocabularyOf(changed).status());
  };
  EXPECT_THAT(message("tokenizer.ggml.model", std::string("llama")),
              HasSubstr("a tokenizer of type \"llama\""));
  EXPECT_THAT(message("tokenizer.ggml.token_type", GgufArray{std::vector<int32_t>{1}}),
              HasSubstr("has 1 elements for 257 tokens"));
  EXPECT_THAT(message("tokenizer.ggml.tokens", uint32_t{3}), HasSubstr("expected array of string"));
  EXPECT_THAT(message("tokenizer.ggml.eos_token_id", uint32_t{257}),
              HasSubstr("expected an id of 257 tokens"));
  EXPECT_THAT(Message(SetVocabulary(ByteVocabulary(), 256, &metadata)),
              HasSubstr("257 tokens, the model embeds 256"));
}

}  // namespace
}  // namespace zeroth
