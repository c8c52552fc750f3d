// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/formats/sentencepiece_model.h"

namespace zeroth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kFixture[] = "tests/testdata/tokenizers/sentencepiece";

std::string Message(const absl::Status& status) { return std::string(status.message()); }

SentencePieceModel FixtureModel() {
  return *ParseSentencePieceModel(ReadTestFile(std::string(kFixture) + "/tokenizer.model"));
}

// A model in which "ab" is better than "bc".
SentencePieceModel SmallModel() {
  SentencePieceModel model = FixtureModel();
  const auto is_normal = [](const SentencePiece& piece) {
    return piece.type == SentencePieceType::kNormal;
  };
  model.pieces.erase(std::remove_if(model.pieces.begin(), model.pieces.end(), is_normal),
                     model.pieces.end());
  for (const auto& [text, score] :
       {std::pair("ab", -1.0f), std::pair("bc", -2.5f), std::pair("a", -4.0f),
        std::pair("b", -5.0f), std::pair("c", -6.0f), std::pair(kMetaspace, -7.0f)}) {
    model.pieces.push_back({text, score});
  }
  model.pieces.push_back({"\xE2\x96\x81\xE2\x96\x81", 0, SentencePieceType::kUserDefined});
  return model;
}

// The tokenizer.json that transformers makes of a model: a merge for every two pieces that form a
// piece, ordered by the score of the result.
Json JsonOf(const SentencePieceModel& model) {
  Json vocab = Json::object();
  Json added = Json::array();
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    vocab[piece.text] = id;
    const bool special =
        piece.type == SentencePieceType::kControl || piece.type == SentencePieceType::kUnknown;
    if (!special && piece.type != SentencePieceType::kUserDefined) continue;
    added.push_back({{"id", id}, {"content", piece.text}, {"special", special}});
  }
  std::vector<std::tuple<float, std::string, std::string>> merges;
  for (const SentencePiece& piece : model.pieces) {
    for (size_t cut = 1; cut < piece.text.size(); ++cut) {
      const std::string left = piece.text.substr(0, cut);
      const std::string right = piece.text.substr(cut);
      if (vocab.contains(left) && vocab.contains(right)) {
        merges.emplace_back(-piece.score, left, right);
      }
    }
  }
  std::sort(merges.begin(), merges.end());
  Json list = Json::array();
  for (const auto& [score, left, right] : merges) list.push_back(Json::array({left, right}));
  const Json replace = {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMetaspace}};
  return {{"added_tokens", added},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers", {{{"type", "Prepend"}, {"prepend", kMetaspace}}, replace}}}},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
            {"special_tokens", {{"<s>", {{"ids", {1}}}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", list}}}};
}

absl::StatusOr<GgufMetadata> MetadataOf(const std::string& directory, int64_t vocab_size) {
  auto vocabulary = ReadHfVocabulary(directory);
  if (!vocabulary.ok()) return vocabulary.status();
  GgufMetadata metadata;
  const absl::Status set = SetVocabulary(*std::move(*vocabulary), vocab_size, &metadata);
  if (!set.ok()) return set;
  return metadata;
}

std::vector<float> ScoresOf(const GgufMetadata& metadata) {
  return std::get<std::vector<float>>(
      std::get<GgufArray>(metadata.values().at("tokenizer.ggml.scores")).items);
}

TEST(GgufSentencePieceTest, AModelThereAndBack) {
  const SentencePieceModel model = FixtureModel();
  const auto metadata = MetadataOf(kFixture, 702);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(*metadata->GetString("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(*metadata->GetString("tokenizer.ggml.pre"), "default");
  EXPECT_FALSE(metadata->Has("tokenizer.ggml.merges"));
  EXPECT_EQ(*metadata->GetInt("tokenizer.ggml.unknown_token_id"), 0);
  EXPECT_EQ(*metadata->GetInt("tokenizer.ggml.bos_token_id"), 1);
  EXPECT_EQ(*metadata->GetInt("tokenizer.ggml.eos_token_id"), 2);
  EXPECT_FALSE(metadata->Has("tokenizer.ggml.padding_token_id"));
  EXPECT_TRUE(*metadata->GetBool("tokenizer.ggml.add_bos_token"));
  EXPECT_FALSE(*metadata->GetBool("tokenizer.ggml.add_eos_token"));
  EXPECT_TRUE(*metadata->GetBool("tokenizer.ggml.add_space_prefix"));
  const std::vector<std::string> tokens = **metadata->GetStrings("tokenizer.ggml.tokens");
  const std::vector<int64_t> types = *metadata->GetInts("tokenizer.ggml.token_type");
  const std::vector<float> scores = ScoresOf(*metadata);
  ASSERT_EQ(tokens.size(), 702u);
  ASSERT_EQ(types.size(), 702u);
  ASSERT_EQ(scores.size(), 702u);
  EXPECT_EQ(std::vector<int64_t>(types.begin(), types.begin() + 4),
            (std::vector<int64_t>{2, 3, 3, 6}));
  EXPECT_EQ(tokens[701], "[PAD701]");
  EXPECT_EQ(types[701], 5);
  const auto read = VocabularyOf(*metadata);
  ASSERT_TRUE(read.ok()) << read.status();
  const auto files = HfTokenizerFiles(**read);
  ASSERT_TRUE(files.ok()) << files.status();
  const auto back = ParseSentencePieceModel(files->at("tokenizer.model"));
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_EQ(back->pieces.size(), model.pieces.size()) << "without the padding";
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    EXPECT_EQ(tokens[id], model.pieces[id].text);
    EXPECT_EQ(back->pieces[id].text, model.pieces[id].text);
    EXPECT_EQ(back->pieces[id].score, model.pieces[id].score);
    EXPECT_EQ(back->pieces[id].type, model.pieces[id].type);
  }
  EXPECT_EQ(back->model_type, SentencePieceModel::kBpe);
  EXPECT_TRUE(back->byte_fallback);
  EXPECT_TRUE(back->add_dummy_prefix);
  EXPECT_FALSE(back->remove_extra_whitespaces);
  EXPECT_EQ(back->FindControl(back->bos_piece), 1);
  EXPECT_EQ(back->FindControl(back->eos_piece), 2);
  EXPECT_EQ(back->FindControl(back->pad_piece), -1);
}

TEST(GgufSentencePieceTest, KindsOfTokensComeBack) {
  const TemporaryDirectory dir;
  SentencePieceModel model = SmallModel();
  model.add_dummy_prefix = false;
  dir.Write("tokenizer.model", SerializeSentencePieceModel(model));
  // Tokens of the config come behind the model's, as in Phi-3.
  dir.Write("tokenizer_config.json", R"({"pad_token": "<|pad|>", "added_tokens_decoder": {
      "266": {"content": "<|user|>", "special": true}, "267": {"content": "<|pad|>", "special": true},
      "268": {"content": "tool call", "special": false}}})");
  const auto metadata = MetadataOf(dir.path(), 269);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  const std::vector<std::string> tokens = **metadata->GetStrings("tokenizer.ggml.tokens");
  const std::vector<int64_t> types = *metadata->GetInts("tokenizer.ggml.token_type");
  ASSERT_EQ(tokens.size(), 269u);
  EXPECT_EQ(tokens[265], "  ") << "llama.cpp looks for it in the text as it is";
  EXPECT_EQ(types[265], 4);
  EXPECT_EQ(types[266], 3);
  EXPECT_EQ(types[268], 4);
  EXPECT_FALSE(*metadata->GetBool("tokenizer.ggml.add_space_prefix"));
  EXPECT_EQ(*metadata->GetInt("tokenizer.ggml.padding_token_id"), 267);
  const auto files = HfTokenizerFiles(**VocabularyOf(*metadata));
  ASSERT_TRUE(files.ok()) << files.status();
  const auto back = ParseSentencePieceModel(files->at("tokenizer.model"));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->pieces[265].text, "\xE2\x96\x81\xE2\x96\x81");
  EXPECT_EQ(back->pieces[265].type, SentencePieceType::kUserDefined);
  EXPECT_EQ(back->pieces[266].text, "<|user|>");
  EXPECT_EQ(back->pieces[266].type, SentencePieceType::kControl);
  EXPECT_EQ(back->FindControl(back->pad_piece), 267);
  EXPECT_FALSE(back->add_dummy_prefix);
  const TemporaryDirectory written;
  for (const auto& [name, content] : *files) written.Write(name, content);
  const auto again = MetadataOf(written.path(), 269);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(**again->GetStrings("tokenizer.ggml.tokens"), tokens);
  EXPECT_EQ(*again->GetInts("tokenizer.ggml.token_type"), types);
  EXPECT_EQ(ScoresOf(*again), ScoresOf(*metadata));
}

// Both ways, and as the tokenizer of the directory does.
TEST(GgufSentencePieceTest, TheConfigSaysWhatIsBesideATextInBothFormats) {
  for (const bool begins : {false, true}) {
    for (const bool ends : {false, true}) {
      const TemporaryDirectory dir;
      dir.Write("tokenizer.model", SerializeSentencePieceModel(SmallModel()));
      dir.Write("tokenizer_config.json",
                Json({{"add_bos_token", begins}, {"add_eos_token", ends}}).dump());
      const auto metadata = MetadataOf(dir.path(), 266);
      ASSERT_TRUE(metadata.ok()) << metadata.status();
      EXPECT_EQ(*metadata->GetBool("tokenizer.ggml.add_bos_token"), begins);
      EXPECT_EQ(*metadata->GetBool("tokenizer.ggml.add_eos_token"), ends);
      const auto files = HfTokenizerFiles(**VocabularyOf(*metadata));
      ASSERT_TRUE(files.ok()) << files.status();
      const Json config = Json::parse(files->at("tokenizer_config.json"));
      EXPECT_EQ(config["add_bos_token"], begins);
      EXPECT_EQ(config["add_eos_token"], ends);
    }
  }
}

// As in the tokenizer of the directory: the config decides which token ends a text and which name a
// piece has, and a control token stays one.
TEST(GgufSentencePieceTest, TheConfigSaysWhichTokensAreSpecial) {
  const TemporaryDirectory dir;
  const SentencePieceModel model = SmallModel();
  dir.Write("tokenizer.model", SerializeSentencePieceModel(model));
  const size_t last = model.pieces.size() - 1;
  dir.Write("tokenizer_config.json",
            Json({{"eos_token", "<|im_end|>"},
                  {"added_tokens_decoder",
                   {{"2", {{"content", "</s>"}, {"special", false}}},
                    {std::to_string(last), {{"content", "<|im_end|>"}, {"special", true}}}}}})
                .dump());
  const auto metadata = MetadataOf(dir.path(), 266);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(*metadata->GetInt("tokenizer.ggml.eos_token_id"), static_cast<int64_t>(last));
  const std::vector<int64_t> types = *metadata->GetInts("tokenizer.ggml.token_type");
  EXPECT_EQ(types[2], static_cast<int64_t>(GgufTokenType::kControl));
  EXPECT_EQ(types[last], static_cast<int64_t>(GgufTokenType::kControl));
}

TEST(GgufSentencePieceTest, ScoresAreTheRanksOfMerges) {
  const TemporaryDirectory dir;
  const Json json = JsonOf(SmallModel());
  dir.Write("tokenizer.json", json.dump());
  dir.Write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  const auto metadata = MetadataOf(dir.path(), 266);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(*metadata->GetString("tokenizer.ggml.model"), "llama");
  EXPECT_TRUE(*metadata->GetBool("tokenizer.ggml.add_bos_token"));
  EXPECT_EQ(*metadata->GetInt("tokenizer.ggml.unknown_token_id"), 0);
  const std::vector<int64_t> types = *metadata->GetInts("tokenizer.ggml.token_type");
  EXPECT_EQ(std::vector<int64_t>(types.begin(), types.begin() + 4),
            (std::vector<int64_t>{2, 3, 3, 6}));
  const std::vector<float> scores = ScoresOf(*metadata);
  // Merges: two metaspaces, which make an added token; "a" "b"; "b" "c".
  EXPECT_EQ(scores[259], -1.0f);
  EXPECT_EQ(scores[260], -2.0f);
  EXPECT_EQ(scores[261], -3.0f) << "never made by a merge";
  // A whole model: the order of its pieces.
  const SentencePieceModel model = FixtureModel();
  dir.Write("tokenizer.json", JsonOf(model).dump());
  const auto whole = MetadataOf(dir.path(), 700);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::vector<float> ranks = ScoresOf(*whole);
  for (size_t id = 260; id < model.pieces.size(); ++id) {
    // Single characters, the last pieces, are made by no merge.
    EXPECT_LE(ranks[id], ranks[id - 1]) << model.pieces[id].text;
  }
}

TEST(GgufSentencePieceTest, TakesTheRulesThatLlamaCppHas) {
  const TemporaryDirectory dir;
  dir.Write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  // Whether a space is put before a text, or the message.
  const auto space = [&](const std::function<void(Json&)>& change) -> std::string {
    Json json = JsonOf(SmallModel());
    change(json);
    dir.Write("tokenizer.json", json.dump());
    const auto metadata = MetadataOf(dir.path(), 266);
    if (!metadata.ok()) return Message(metadata.status());
    return *metadata->GetBool("tokenizer.ggml.add_space_prefix") ? "space" : "none";
  };
  const Json replace = JsonOf(SmallModel())["normalizer"]["normalizers"][1];
  const auto metaspace = [&](const Json& scheme, const Json& split) {
    return space([&](Json& json) {
      json["normalizer"] = nullptr;
      json["pre_tokenizer"] = {{"type", "Metaspace"},
                               {"replacement", kMetaspace},
                               {"prepend_scheme", scheme},
                               {"split", split}};
    });
  };
  EXPECT_EQ(space([](Json&) {}), "space");
  EXPECT_EQ(metaspace("first", false), "space");
  EXPECT_EQ(metaspace("always", false), "space");
  EXPECT_EQ(metaspace("never", false), "none");
  EXPECT_THAT(metaspace("first", true), HasSubstr("\"split\": false"));
  EXPECT_THAT(metaspace("first", Json()), HasSubstr("\"split\": false"));
  EXPECT_EQ(space([&](Json& json) {
              json["normalizer"] = replace;
              json["pre_tokenizer"] = {{"type", "Split"},
                                       {"pattern", {{"String", " "}}},
                                       {"behavior", "MergedWithPrevious"},
                                       {"invert", false}};
            }),
            "none")
      << "Gemma's";
  EXPECT_THAT(space([](Json& json) {
                json["normalizer"] = {{"type", "NFKC"}};
              }),
              HasSubstr("its normalizer has {\"type\":\"NFKC\"}, which llama.cpp does not do"));
  EXPECT_THAT(space([](Json& json) { json["normalizer"] = nullptr; }),
              HasSubstr("spells a space as"));
  EXPECT_THAT(space([](Json& json) { json["model"]["ignore_merges"] = true; }),
              HasSubstr("\"ignore_merges\" with byte fallback"));
  EXPECT_THAT(space([](Json& json) {
                Json& vocab = json["model"]["vocab"];
                vocab["<0x4g>"] = vocab["<0x41>"];
                vocab.erase("<0x41>");
              }),
              AllOf(HasSubstr("with 255 of the 256 byte tokens"),
                    HasSubstr("convert without a vocabulary")));
}

// A list of merges can have an order that no score of tokens has.
TEST(GgufSentencePieceTest, RefusesMergesThatAreNotOfSentencePiece) {
  const TemporaryDirectory dir;
  dir.Write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  const auto message = [&](const std::vector<std::string>& more,
                           const std::vector<std::string>& merges) {
    SentencePieceModel model = SmallModel();
    for (const std::string& text : more) model.pieces.push_back({text, -3});
    Json json = JsonOf(model);
    json["model"]["merges"] = merges;
    dir.Write("tokenizer.json", json.dump());
    return Message(MetadataOf(dir.path(), 270).status());
  };
  const std::vector<std::string> good = {"a b", "b c"};
  EXPECT_EQ(message({}, good), "");
  EXPECT_EQ(message({"abc"}, {"a b", "b c", "a bc", "ab c"}), "");
  EXPECT_THAT(message({"abc"}, {"a b", "b c", "ab c"}),
              HasSubstr("the token \"abc\" can be made of two tokens in 2 ways, of which 1 are "
                        "merges"));
  EXPECT_THAT(message({"abc"}, {"a b", "ab c", "b c", "a bc"}),
              HasSubstr("its merges into \"abc\" have others between them"));
  EXPECT_THAT(message({}, {"a b"}), HasSubstr("the token \"bc\" can be made"));
  // One merge for each token, as the library "tokenizers" trains.
  EXPECT_THAT(Message(ReadHfVocabulary("tests/testdata/tokenizers/llama2").status()),
              HasSubstr("llama.cpp merges all of them, as SentencePiece does"));
}

TEST(GgufSentencePieceTest, RefusesModelsThatLlamaCppWouldNotFollow) {
  const TemporaryDirectory dir;
  const auto message = [&](const std::function<void(SentencePieceModel&)>& change) {
    SentencePieceModel model = SmallModel();
    change(model);
    dir.Write("tokenizer.model", SerializeSentencePieceModel(model));
    return Message(MetadataOf(dir.path(), 266).status());
  };
  EXPECT_EQ(message([](SentencePieceModel&) {}), "");
  EXPECT_THAT(message([](SentencePieceModel& model) { model.model_type = 1; }),
              AllOf(HasSubstr("tokenizer.model: a SentencePiece model of the type unigram, "
                              "expected BPE"),
                    HasSubstr("convert without a vocabulary")));
  EXPECT_THAT(message([](SentencePieceModel& model) { model.model_type = 9; }),
              HasSubstr("of the type unknown"));
  EXPECT_THAT(message([](SentencePieceModel& model) { model.remove_extra_whitespaces = true; }),
              HasSubstr("removes spaces"));
  EXPECT_THAT(message([](SentencePieceModel& model) { model.escape_whitespaces = false; }),
              HasSubstr("does not mark spaces"));
  EXPECT_THAT(message([](SentencePieceModel& model) { model.treat_whitespace_as_suffix = true; }),
              HasSubstr("marks spaces behind words"));
  EXPECT_THAT(message([](SentencePieceModel& model) {
                model.pieces[10].type = SentencePieceType::kNormal;
              }),
              HasSubstr("with 255 of the 256 byte tokens"));
  EXPECT_THAT(message([](SentencePieceModel& model) { model.eos_piece = "no such token"; }),
              HasSubstr("no token that ends a text"));
  // The field 2 of the field 3, before it an empty name.
  dir.Write("tokenizer.model",
            SerializeSentencePieceModel(SmallModel()) + std::string("\x1a\x03\x12\x01n", 5));
  EXPECT_THAT(Message(ReadHfVocabulary(dir.path()).status()), HasSubstr("replaces characters"));
  const std::string bytes = SerializeSentencePieceModel(SmallModel());
  for (const std::string& wrong :
       {std::string("x"), std::string(), bytes.substr(0, bytes.size() - 1)}) {
    dir.Write("tokenizer.model", wrong);
    const absl::Status status = ReadHfVocabulary(dir.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), HasSubstr("tokenizer.model: not a SentencePiece model"));
  }
}

TEST(GgufSentencePieceTest, HoldsMetadataAgainstThemselves) {
  const TemporaryDirectory dir;
  dir.Write("tokenizer.model", SerializeSentencePieceModel(SmallModel()));
  const auto metadata = MetadataOf(dir.path(), 266);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  const auto message = [&](const char* key, GgufValue value) {
    GgufMetadata changed = *metadata;
    changed.Set(key, std::move(value));
    const auto vocabulary = VocabularyOf(changed);
    return Message(vocabulary.ok() ? HfTokenizerFiles(**vocabulary).status() : vocabulary.status());
  };
  const auto scores = [](float value) { return GgufArray{std::vector<float>(266, value)}; };
  EXPECT_EQ(message("tokenizer.ggml.scores", scores(-1)), "");
  EXPECT_THAT(message("tokenizer.ggml.scores", scores(1.0f / 0.0f)), HasSubstr("the score inf"));
  EXPECT_THAT(message("tokenizer.ggml.scores", uint32_t{1}), HasSubstr("is not an array of f32"));
  EXPECT_THAT(message("tokenizer.ggml.scores", GgufArray{std::vector<float>(3, 0.0f)}),
              HasSubstr("has 3 elements for 266 tokens"));
  EXPECT_THAT(message("tokenizer.ggml.token_type", GgufArray{std::vector<int32_t>(266, 7)}),
              HasSubstr("has the type 7 for token 0, expected 0 to 6"));
  EXPECT_THAT(message("tokenizer.ggml.tokens", GgufArray{std::vector<std::string>(266, "same")}),
              HasSubstr("tokens 0 and 1 are both \"same\""));
  // A file of an older llama.cpp, which calls the unknown token a control token and leaves out what
  // its tokenizer does by default.
  GgufMetadata old;
  for (const auto& [key, value] : metadata->values()) {
    if (key == "tokenizer.ggml.model" || key == "tokenizer.ggml.tokens" ||
        key == "tokenizer.ggml.scores") {
      old.Set(key, value);
    }
  }
  std::vector<int32_t> types;
  const std::vector<int64_t> new_types = *metadata->GetInts("tokenizer.ggml.token_type");
  for (const int64_t type : new_types) {
    types.push_back(type == 2 ? 3 : static_cast<int32_t>(type));
  }
  old.Set("tokenizer.ggml.token_type", GgufArray{types});
  const auto vocabulary = VocabularyOf(old);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ((*vocabulary)->prefix, std::vector<int64_t>{1});
  const auto files = HfTokenizerFiles(**vocabulary);
  ASSERT_TRUE(files.ok()) << files.status();
  const auto model = ParseSentencePieceModel(files->at("tokenizer.model"));
  EXPECT_EQ(model->pieces[0].type, SentencePieceType::kUnknown);
  EXPECT_TRUE(model->add_dummy_prefix);
}

}  // namespace
}  // namespace zeroth
