// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
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
  EXPECT_FALSE(*metadata.GetBool("tokenizer.ggml.add_bos_token"));
  const auto read = VocabularyOf(metadata);
  ASSERT_TRUE(read.ok()) << read.status();
  const auto files = HfTokenizerFiles(**read);
  ASSERT_TRUE(files.ok()) << files.status();
  const Json tokenizer = Json::parse(files->at("tokenizer.json"));
  EXPECT_EQ(tokenizer["model"]["vocab"], Json::parse(kVocab)) << "without the padding";
  EXPECT_EQ(tokenizer["model"]["merges"], Json::array({Json::array({"a", "b"})}));
  EXPECT_EQ(Json::parse(files->at("tokenizer_config.json"))["eos_token"], "<|endoftext|>");
}

const Json kGpt2Cuts = {{"type", "ByteLevel"}, {"add_prefix_space", false}};

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

Json CutsBy(const std::string& regex) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"},
             {"pattern", {{"Regex", regex}}},
             {"behavior", "Isolated"},
             {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
}

// Llama 3's cuts, and with `digits` of "\\p{N}" Qwen 2's.
Json Llama3Cuts(const std::string& digits = "\\p{N}{1,3}") {
  return CutsBy("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" + digits +
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
}

// Those of Qwen 3.5, where marks belong to words.
Json Qwen35Cuts() {
  return CutsBy(
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
      " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
}

// Those of gpt-oss: tiktoken's pat_str of o200k_base.
Json GptOssCuts() {
  const std::string upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
  const std::string lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
  const std::string before = "[^\\r\\n\\p{L}\\p{N}]?";
  const std::string after = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|";
  return CutsBy(before + upper + "*" + lower + "+" + after + before + upper + "+" + lower + "*" +
                after +
                "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
}

TEST(GgufTokenizerTest, ReadsTokenizerJson) {
  const TemporaryDirectory dir;
  dir.Write("tokenizer.json", TokenizerJson(Llama3Cuts()).dump());
  dir.Write("vocab.json", "not read when tokenizer.json is there");
  const auto vocabulary = ReadHfVocabulary(dir.path());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ((*vocabulary)->pre, "dbrx") << "llama-bpe would take whole words without merges";
  EXPECT_EQ((*vocabulary)->tokens, (std::vector<std::string>{"a", "b", "ab", "<|begin|>", "tool"}));
  EXPECT_EQ((*vocabulary)->types[3], GgufTokenType::kControl);
  EXPECT_EQ((*vocabulary)->types[4], GgufTokenType::kUserDefined);
  EXPECT_EQ((*vocabulary)->merges, (std::vector<std::string>{"a b"}));
  Json qwen2 = TokenizerJson(Llama3Cuts("\\p{N}"));
  qwen2["normalizer"] = {{"type", "NFC"}};
  dir.Write("tokenizer.json", qwen2.dump());
  EXPECT_EQ((*ReadHfVocabulary(dir.path()))->pre, "qwen2");
  dir.Write("tokenizer.json", TokenizerJson(kGpt2Cuts).dump());
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
              HasSubstr("the model \"Unigram\" is not known"));
  EXPECT_THAT(message(with("/model/type", 3)), HasSubstr("\"type\" is number"));
  EXPECT_THAT(message(with("/model/byte_fallback", true)),
              HasSubstr("expected none, or Metaspace with"));
  EXPECT_THAT(message(with("/model", 3)), HasSubstr("\"vocab\" is not an object"));
  EXPECT_THAT(message(with("/pre_tokenizer/pretokenizers/0/pattern/Regex", ".")),
              HasSubstr("neither GPT-2's nor Llama 3's nor Qwen 2's nor gpt-oss's"));
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
  EXPECT_THAT(message(with("/model/vocab/a", -1)), HasSubstr("has id -1"));
  EXPECT_THAT(message(with("/model/vocab/a", 1e300)), HasSubstr("has id 1e+300"));
  EXPECT_THAT(message(with("/model/vocab/a", 5000)), HasSubstr("\"a\" has id 5000, far from"));
  dir.Write("tokenizer.json", with("/model/vocab/a", 9).dump());
  const auto gaps = ReadHfVocabulary(dir.path());
  ASSERT_TRUE(gaps.ok()) << gaps.status();
  EXPECT_EQ((*gaps)->tokens.at(0), "[PAD0]");
  EXPECT_EQ((*gaps)->types.at(0), GgufTokenType::kUnused);
  EXPECT_EQ((*gaps)->tokens.at(9), "a");
  EXPECT_THAT(message(with("/model/vocab", "a")), HasSubstr("\"vocab\" is not an object"));
  EXPECT_THAT(message(with("/model/merges/0", "ab")),
              HasSubstr("merge 1 is neither \"left right\""));
  EXPECT_THAT(message(with("/model/merges/0", {"a b", "c"})), HasSubstr("without spaces"));
  EXPECT_THAT(message(with("/model/merges", Json::object())), HasSubstr("expected an array"));
  EXPECT_THAT(message(with("/model/merges/0", 7)), HasSubstr("merge 1 is neither"));
  EXPECT_THAT(message(with("/added_tokens/0", 7)), HasSubstr("\"id\" is missing"));
  EXPECT_THAT(message(with("/post_processor", {{"type", "RobertaProcessing"}})),
              HasSubstr("post-processor \"RobertaProcessing\" is not known"));
}

// llama.cpp's names of rules imply more than how text is cut.
TEST(GgufTokenizerTest, NamesARuleOnlyWhereLlamaCppFollowsIt) {
  const TemporaryDirectory dir;
  const auto pre = [&](const Json& rule, bool ignore_merges, const char* pointer = nullptr,
                       const Json& value = Json()) {
    Json json = TokenizerJson(rule);
    json["model"]["ignore_merges"] = ignore_merges;
    if (pointer != nullptr) json["pre_tokenizer"][Json::json_pointer(pointer)] = value;
    dir.Write("tokenizer.json", json.dump());
    const auto vocabulary = ReadHfVocabulary(dir.path());
    return vocabulary.ok() ? (*vocabulary)->pre : Message(vocabulary.status());
  };
  EXPECT_EQ(pre(Llama3Cuts(), true), "llama-bpe");
  EXPECT_EQ(pre(Llama3Cuts(), false), "dbrx");
  EXPECT_THAT(pre(Llama3Cuts("\\p{N}"), true), HasSubstr("with its ignore_merges, is neither"));
  EXPECT_EQ(pre(GptOssCuts(), true), "gpt-4o");
  EXPECT_EQ(pre(GptOssCuts(), false), "gpt-4o");
  EXPECT_THAT(pre(kGpt2Cuts, true), HasSubstr("neither"));
  EXPECT_THAT(pre(kGpt2Cuts, false, "/add_prefix_space", true), HasSubstr("neither"));
  EXPECT_THAT(pre(kGpt2Cuts, false, "/use_regex", false), HasSubstr("neither"));
  const auto changed = [&](const char* pointer, const Json& value) {
    return pre(Llama3Cuts(), true, pointer, value);
  };
  const std::string split = "/pretokenizers/0";
  const std::string last = "/pretokenizers/1";
  EXPECT_THAT(changed((split + "/behavior").c_str(), "Removed"), HasSubstr("neither"));
  EXPECT_THAT(changed((split + "/invert").c_str(), true), HasSubstr("neither"));
  EXPECT_THAT(changed((split + "/type").c_str(), "Digits"), HasSubstr("neither"));
  EXPECT_THAT(changed((last + "/add_prefix_space").c_str(), true), HasSubstr("neither"));
  EXPECT_THAT(changed((last + "/use_regex").c_str(), true), HasSubstr("neither"));
  EXPECT_THAT(changed(last.c_str(), {{"type", "Digits"}, {"individual_digits", true}}),
              HasSubstr("neither"));
  Json removed = Llama3Cuts();
  removed["pretokenizers"][0]["behavior"] = "Removed";
  removed["pretokenizers"][0]["invert"] = true;
  EXPECT_EQ(pre(removed, true), "llama-bpe") << "the same, as the expression matches all text";
}

TEST(GgufTokenizerTest, SaysWhichTokensArePutBesideATextAndWhichEndsIt) {
  const TemporaryDirectory dir;
  // The tokens of a template before and after the text; those of the config.
  const auto metadata_of = [&](const std::vector<int>& before, const std::vector<int>& after,
                               const Json& config) -> absl::StatusOr<GgufMetadata> {
    Json json = TokenizerJson(Llama3Cuts());
    Json& processor = json["post_processor"] = {{"type", "TemplateProcessing"}};
    Json& single = processor["single"] = Json::array();
    for (const int id : before) single.push_back({{"SpecialToken", {{"id", std::to_string(id)}}}});
    single.push_back({{"Sequence", {{"id", "A"}}}});
    for (const int id : after) single.push_back({{"SpecialToken", {{"id", std::to_string(id)}}}});
    for (int id = 0; id < 5; ++id)
      processor["special_tokens"][std::to_string(id)] = {{"ids", Json::array({id})}};
    dir.Write("tokenizer.json", json.dump());
    dir.Write("tokenizer_config.json", config.dump());
    auto vocabulary = ReadHfVocabulary(dir.path());
    if (!vocabulary.ok()) return vocabulary.status();
    GgufMetadata metadata;
    const absl::Status set = SetVocabulary(*std::move(*vocabulary), 5, &metadata);
    if (!set.ok()) return set;
    return metadata;
  };
  const Json config = {{"bos_token", "<|begin|>"}, {"eos_token", {{"content", "tool"}}}};
  for (const bool begins : {false, true}) {
    for (const bool ends : {false, true}) {
      const auto metadata = metadata_of(begins ? std::vector<int>{3} : std::vector<int>{},
                                        ends ? std::vector<int>{4} : std::vector<int>{}, config);
      ASSERT_TRUE(metadata.ok()) << metadata.status();
      EXPECT_EQ(*metadata->GetBool("tokenizer.ggml.add_bos_token"), begins);
      EXPECT_EQ(*metadata->GetBool("tokenizer.ggml.add_eos_token"), ends);
      EXPECT_EQ(*metadata->GetInt("tokenizer.ggml.bos_token_id"), 3);
      EXPECT_EQ(*metadata->GetInt("tokenizer.ggml.eos_token_id"), 4);
    }
  }
  const auto unnamed = metadata_of({3}, {}, {{"eos_token", "tool"}});
  ASSERT_TRUE(unnamed.ok()) << unnamed.status();
  EXPECT_EQ(*unnamed->GetInt("tokenizer.ggml.bos_token_id"), 3);
  EXPECT_THAT(
      Message(metadata_of({4}, {}, config).status()),
      AllOf(HasSubstr("\"post_processor\" of tokenizer.json puts 4 (\"tool\") before a text"),
            HasSubstr("would put 3 (\"<|begin|>\")"),
            HasSubstr("name that token as \"bos_token\" in tokenizer_config.json, or convert with "
                      "--vocabulary=none")));
  EXPECT_THAT(Message(metadata_of({3, 3}, {}, config).status()),
              HasSubstr("puts 3 (\"<|begin|>\"), 3 (\"<|begin|>\") before"));
  EXPECT_THAT(Message(metadata_of({}, {3}, config).status()),
              HasSubstr("puts 3 (\"<|begin|>\") after a text"));
  EXPECT_THAT(Message(metadata_of({}, {}, Json::object()).status()),
              HasSubstr("no token that ends a text; name it as \"eos_token_id\""));
  EXPECT_THAT(Message(metadata_of({}, {}, {{"eos_token", "</s>"}}).status()),
              HasSubstr("begins or ends a text is 5, expected one of the 5 that the model embeds"));
}

// As llama.cpp's converter, of a model of text whose tokenizer has a token for images.
TEST(GgufTokenizerTest, SpecialTokensWithoutARowAreLeftOut) {
  GgufVocabulary vocabulary = ByteVocabulary();
  for (const char* token : {"<image>", "<pad>"}) {
    vocabulary.tokens.push_back(token);
    vocabulary.types.push_back(GgufTokenType::kControl);
  }
  vocabulary.padding = 258;
  GgufMetadata metadata;
  ASSERT_TRUE(SetVocabulary(vocabulary, 257, &metadata).ok());
  EXPECT_EQ((*metadata.GetStrings("tokenizer.ggml.tokens"))->size(), 257u);
  EXPECT_EQ(metadata.GetInts("tokenizer.ggml.token_type")->size(), 257u);
  EXPECT_FALSE(metadata.Has("tokenizer.ggml.padding_token_id"));
  vocabulary.types[257] = GgufTokenType::kNormal;
  EXPECT_THAT(Message(SetVocabulary(vocabulary, 257, &metadata)),
              HasSubstr("259 tokens, the model embeds 257; are they of the same model? The last "
                        "token that is not special is \"<image>\""));
}

// transformers finds a token in text only if tokenizer_config.json says that it was added.
TEST(GgufTokenizerTest, KindsOfTokensComeBack) {
  const TemporaryDirectory dir;
  Json json = TokenizerJson(kGpt2Cuts);
  dir.Write("tokenizer.json", json.dump());
  dir.Write("tokenizer_config.json", R"({"bos_token": "<|begin|>", "eos_token": "<|begin|>"})");
  const auto vocabulary = ReadHfVocabulary(dir.path());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  GgufMetadata metadata;
  ASSERT_TRUE(SetVocabulary(**vocabulary, 6, &metadata).ok());
  metadata.Set("tokenizer.ggml.add_bos_token", true);
  const auto files = HfTokenizerFiles(**VocabularyOf(metadata));
  ASSERT_TRUE(files.ok()) << files.status();
  const Json config = Json::parse(files->at("tokenizer_config.json"));
  const Json& added = config["added_tokens_decoder"];
  EXPECT_EQ(added.size(), 2u) << added;
  EXPECT_EQ(added["3"]["content"], "<|begin|>");
  EXPECT_EQ(added["3"]["special"], true);
  EXPECT_EQ(added["4"]["special"], false);
  const TemporaryDirectory written;
  for (const auto& [name, content] : *files) written.Write(name, content);
  const auto again = ReadHfVocabulary(written.path());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->tokens, (*vocabulary)->tokens);
  EXPECT_EQ((*again)->types, (*vocabulary)->types);
  EXPECT_EQ((*again)->prefix, std::vector<int64_t>{3});
  metadata.Set("tokenizer.ggml.add_eos_token", true);
  const auto with_end = HfTokenizerFiles(**VocabularyOf(metadata));
  for (const auto& [name, content] : *with_end) written.Write(name, content);
  EXPECT_EQ((*ReadHfVocabulary(written.path()))->suffix, std::vector<int64_t>{3});
}

// The rule and whether a text begins with a token, as llama.cpp takes them from a file.
TEST(GgufTokenizerTest, RulesComeBack) {
  const TemporaryDirectory dir;
  dir.Write("tokenizer_config.json", R"({"bos_token": "<|begin|>", "eos_token": "<|begin|>"})");
  for (const auto& [pre, rule, ignore_merges] :
       {std::tuple("gpt-2", kGpt2Cuts, false), std::tuple("llama-bpe", Llama3Cuts(), true),
        std::tuple("dbrx", Llama3Cuts(), false), std::tuple("qwen2", Llama3Cuts("\\p{N}"), false),
        std::tuple("qwen35", Qwen35Cuts(), false), std::tuple("gpt-4o", GptOssCuts(), true)}) {
    Json json = TokenizerJson(rule);
    json["model"]["ignore_merges"] = ignore_merges;
    dir.Write("tokenizer.json", json.dump());
    GgufMetadata metadata;
    ASSERT_TRUE(SetVocabulary(**ReadHfVocabulary(dir.path()), 5, &metadata).ok());
    EXPECT_EQ(*metadata.GetString("tokenizer.ggml.pre"), pre);
    const auto files = HfTokenizerFiles(**VocabularyOf(metadata));
    ASSERT_TRUE(files.ok()) << files.status();
    const Json back = Json::parse(files->at("tokenizer.json"));
    EXPECT_EQ(back["normalizer"].is_null(), !absl::StartsWith(pre, "qwen"));
    const TemporaryDirectory written;
    for (const auto& [name, content] : *files) written.Write(name, content);
    const auto again = ReadHfVocabulary(written.path());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ((*again)->pre, pre);
    GgufMetadata without;
    for (const auto& [key, value] : metadata.values()) {
      if (key != "tokenizer.ggml.add_bos_token") without.Set(key, value);
    }
    EXPECT_EQ((*VocabularyOf(without))->prefix.empty(), absl::string_view(pre) != "llama-bpe");
  }
  GgufVocabulary other = ByteVocabulary();
  other.pre = "falcon";
  EXPECT_THAT(Message(HfTokenizerFiles(other).status()), HasSubstr("the rule \"falcon\""));
  EXPECT_EQ(HfTokenizerFiles(other).status().code(), absl::StatusCode::kUnimplemented);
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
  EXPECT_THAT(message("tokenizer.ggml.model", std::string("t5")),
              HasSubstr("a tokenizer of type \"t5\", expected \"gpt2\""));
  EXPECT_THAT(message("tokenizer.ggml.model", std::string("llama")),
              HasSubstr("key \"tokenizer.ggml.scores\" is not an array of f32"));
  EXPECT_THAT(message("tokenizer.ggml.token_type", GgufArray{std::vector<int32_t>{1}}),
              HasSubstr("has 1 elements for 257 tokens"));
  EXPECT_THAT(message("tokenizer.ggml.tokens", uint32_t{3}), HasSubstr("expected array of string"));
  EXPECT_THAT(message("tokenizer.ggml.eos_token_id", uint32_t{257}),
              HasSubstr("expected an id of 257 tokens"));
  EXPECT_THAT(Message(SetVocabulary(ByteVocabulary(), 255, &metadata)),
              HasSubstr("257 tokens, the model embeds 255"));
  EXPECT_THAT(Message(SetVocabulary(ByteVocabulary(), 256, &metadata)),
              HasSubstr("begins or ends a text is 256, expected one of the 256"));
}

}  // namespace
}  // namespace zeroth
