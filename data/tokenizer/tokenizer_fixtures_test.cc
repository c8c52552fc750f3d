// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Texts that Hugging Face's library "tokenizers", and SentencePiece's for Python, have encoded.

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

std::string FolderOf(const std::string& name) {
  return absl::StrCat("tests/testdata/tokenizers/", name);
}

nlohmann::json CasesOf(const std::string& name) {
  auto cases = ReadJsonFile(FolderOf(name) + "/cases.json");
  EXPECT_TRUE(cases.ok()) << cases.status();
  return cases.ok() ? *std::move(cases) : nlohmann::json::array();
}

class TokenizerFixturesTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const bool json = GetParam() != "sentencepiece";
    auto opened = OpenTokenizer(FolderOf(GetParam()), {.parse_special = json});
    ASSERT_TRUE(opened.ok()) << opened.status();
    tokenizer_ = *std::move(opened);
    cases_ = CasesOf(GetParam());
    ASSERT_EQ(cases_.size(), 150u);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  nlohmann::json cases_;
};

TEST_P(TokenizerFixturesTest, IdsAndTexts) {
  for (const nlohmann::json& each : cases_) {
    const auto text = each["text"].get<std::string>();
    const auto expected = each["ids"].get<std::vector<int32_t>>();
    const auto ids = tokenizer_->Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, expected) << text;
    EXPECT_EQ(*tokenizer_->DecodeUtf8Text(expected), each["decoded"].get<std::string>());
    if (!each.contains("ids_with_special")) continue;
    std::vector<int32_t> with_special(tokenizer_->prefix().begin(), tokenizer_->prefix().end());
    with_special.insert(with_special.end(), ids->begin(), ids->end());
    with_special.insert(with_special.end(), tokenizer_->suffix().begin(),
                        tokenizer_->suffix().end());
    EXPECT_EQ(with_special, each["ids_with_special"].get<std::vector<int32_t>>()) << text;
  }
}

// The promise of CutsAtSpaces, on random joins of the texts, cut at every place there is.
TEST_P(TokenizerFixturesTest, PartsHaveTheIdsOfTheWhole) {
  // Llama 2 puts the same mark before a text and after a special token.
  if (GetParam() == "llama2") {
    EXPECT_FALSE(tokenizer_->CutsAtSpaces());
    tokenizer_ = *OpenTokenizer(FolderOf(GetParam()));
  }
  ASSERT_TRUE(tokenizer_->CutsAtSpaces());
  std::mt19937 random(41);
  for (int trial = 0; trial < 100; ++trial) {
    std::string text;
    for (int i = 0; i < 6; ++i) {
      text += cases_[random() % cases_.size()]["text"].get<std::string>();
      if (random() % 2 == 0) text += ' ';
    }
    const std::vector<int32_t> whole = *tokenizer_->Encode(text);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      if (text[cut] != ' ' || text[cut - 1] < 0x21 || text[cut - 1] > 0x7E) continue;
      if (random() % 4 != 0) continue;
      std::vector<int32_t> parts;
      const auto append = [&parts](absl::Span<const int32_t> piece) {
        parts.insert(parts.end(), piece.begin(), piece.end());
      };
      ASSERT_TRUE(tokenizer_->EncodeTo(text.substr(0, cut), false, append).ok());
      ASSERT_TRUE(tokenizer_->EncodeTo(text.substr(cut), true, append).ok());
      ASSERT_EQ(parts, whole) << text << " cut at " << cut;
    }
  }
}

// A completion after its prompt: no space comes between them that neither has.
TEST_P(TokenizerFixturesTest, AContinuationGetsNoSpace) {
  for (const std::string prompt : {"Two and two?\n", "Q:", "### Response:\n"}) {
    for (const std::string completion : {"Four.", " Four.", "4", "\n\nFour", "\xC3\xA9t\xC3\xA9"}) {
      std::vector<int32_t> ids = *tokenizer_->Encode(prompt);
      const absl::Status status = tokenizer_->EncodeTo(
          completion, /*continues=*/true, [&ids](absl::Span<const int32_t> piece) {
            ids.insert(ids.end(), piece.begin(), piece.end());
          });
      ASSERT_TRUE(status.ok()) << status;
      // What the tokenizer does with the text as a whole, as to replace characters.
      EXPECT_EQ(*tokenizer_->DecodeUtf8Text(ids),
                *tokenizer_->DecodeUtf8Text(*tokenizer_->Encode(prompt + completion)));
    }
  }
}

TEST_P(TokenizerFixturesTest, AnyBytesAreEncoded) {
  std::mt19937 random(43);
  const bool keeps_all = GetParam() == "gpt2_json" || GetParam() == "llama3";
  for (int trial = 0; trial < 200; ++trial) {
    std::string text;
    for (uint32_t i = random() % 200; i > 0; --i) text.push_back(static_cast<char>(random()));
    const auto ids = tokenizer_->Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    if (keeps_all) {
      ASSERT_EQ(*tokenizer_->Decode(*ids), text);
    }
    // Valid UTF-8, which JSON demands.
    EXPECT_NO_THROW(nlohmann::json(*tokenizer_->DecodeUtf8Text(*ids)).dump());
  }
}

// The files beside a tokenizer.json, with what AutoTokenizer of transformers makes of them.
TEST(TokenizerLayoutsTest, FilesBesideATokenizerJsonCountAsInTransformers) {
  const auto layouts = ReadJsonFile(FolderOf("layouts.json"));
  ASSERT_TRUE(layouts.ok()) << layouts.status();
  ASSERT_EQ(layouts->size(), 28u);
  const auto qwen2 = ReadJsonFile(FolderOf("qwen2/tokenizer.json"));
  ASSERT_TRUE(qwen2.ok()) << qwen2.status();
  for (const nlohmann::json& layout : *layouts) {
    SCOPED_TRACE(layout["name"].get<std::string>());
    nlohmann::json tokenizer = *qwen2;
    nlohmann::json& added = tokenizer["added_tokens"];
    for (const nlohmann::json& without : layout.value("without", nlohmann::json::array())) {
      added.erase(std::remove_if(added.begin(), added.end(),
                                 [&](const auto& token) { return token["content"] == without; }),
                  added.end());
    }
    const TemporaryDirectory dir;
    dir.Write("tokenizer.json", tokenizer.dump());
    for (const auto& [name, content] : layout["files"].items()) dir.Write(name, content.dump());
    const auto opened = OpenTokenizer(dir.path(), {.parse_special = true});
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(*(*opened)->Encode(layout["text"].get<std::string>()),
              layout["ids"].get<std::vector<int32_t>>());
    EXPECT_EQ((*opened)->vocab_size(), layout["vocab_size"].get<int32_t>());
    // Where transformers has none, one of the usual spellings ends a text.
    const nlohmann::json& eos = layout["eos"];
    EXPECT_EQ((*opened)->end_of_text(), eos.is_null() ? 900 : eos.get<int32_t>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerFixturesTest,
                         ::testing::Values("gpt2_json", "llama3", "qwen2", "llama2",
                                           "sentencepiece"),
                         [](const auto& each) { return each.param; });

// Unknown parts are refused by their names.
TEST(TokenizerJsonTest, UnknownAndBadPartsAreNamed) {
  auto read = ReadJsonFile(FolderOf("llama3") + "/tokenizer.json");
  ASSERT_TRUE(read.ok());
  const nlohmann::json good = *read;
  ASSERT_TRUE(TokenizerFromJson(good, nullptr, {}).ok());
  const auto error = [&good](const char* pointer, const char* value) {
    nlohmann::json bad = good;
    bad[nlohmann::json::json_pointer(pointer)] = nlohmann::json::parse(value);
    return std::string(TokenizerFromJson(bad, nullptr, {}).status().message());
  };
  const auto expect = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(error("/pre_tokenizer", R"({"type": "BertPreTokenizer"})"),
         "the pre-tokenizer \"BertPreTokenizer\" is not known to Zeroth, which knows ByteLevel");
  expect(error("/pre_tokenizer/pretokenizers/0/behavior", "\"Sideways\""), "\"Sideways\"");
  expect(error("/pre_tokenizer/pretokenizers/0/pattern", R"({"Regex": "(a"})"),
         "the regular expression \"(a\"");
  expect(error("/pre_tokenizer/pretokenizers/0/pattern", R"({"Regex": "\\h+"})"), "the escape \\h");
  expect(error("/pre_tokenizer/pretokenizers/0/pattern", R"({"Regex": "[a&&b]"})"), "&&");
  expect(error("/normalizer", R"({"type": "Precompiled"})"), "the normalizer \"Precompiled\"");
  expect(error("/decoder", R"({"type": "WordPiece"})"), "the decoder \"WordPiece\"");
  expect(error("/post_processor", R"({"type": "BertProcessing"})"),
         "the post-processor \"BertProcessing\"");
  expect(error("/model/type", "\"Unigram\""), "the model \"Unigram\"");
  expect(error("/model/dropout", "0.1"), "\"dropout\" is set");
  expect(error("/model/unk_token", "\"<none>\""), "\"<none>\" is not in the vocabulary");
  expect(error("/model/merges/3", "[\"a\"]"), "merge 4 is neither");
  expect(error("/added_tokens/0/id", "5"), "has id 5");
  expect(error("/added_tokens", "[]"), "no token that ends a text");
}

// Newlines are tokens of their own here, so a prompt and its completion have the ids of the whole.
TEST(TokenizerJsonTest, MetaspacePutsNoSpaceBeforeAContinuation) {
  auto json = ReadJsonFile(FolderOf("llama2") + "/tokenizer.json");
  ASSERT_TRUE(json.ok());
  (*json)["normalizer"] = nullptr;
  for (const char* const scheme : {"always", "first", "never"}) {
    for (const bool splits : {false, true}) {
      (*json)["pre_tokenizer"] = {{"type", "Metaspace"},
                                  {"replacement", "\xE2\x96\x81"},
                                  {"prepend_scheme", scheme},
                                  {"split", splits}};
      const auto tokenizer = TokenizerFromJson(*json, nullptr, {});
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
      for (const std::string completion : {"Four.", " Four.", "4 and more"}) {
        std::vector<int32_t> ids = *(*tokenizer)->Encode("Two?\n");
        ASSERT_TRUE((*tokenizer)
                        ->EncodeTo(completion, /*continues=*/true,
                                   [&ids](absl::Span<const int32_t> piece) {
                                     ids.insert(ids.end(), piece.begin(), piece.end());
                                   })
                        .ok());
        EXPECT_EQ(ids, *(*tokenizer)->Encode("Two?\n" + completion)) << scheme << splits;
      }
    }
  }
}

TEST(TokenizerJsonTest, TheConfigSaysWhatEndsAText) {
  const auto json = ReadJsonFile(FolderOf("llama3") + "/tokenizer.json");
  ASSERT_TRUE(json.ok());
  const auto end = [&json](const char* config) -> absl::StatusOr<int32_t> {
    auto tokenizer = TokenizerFromJson(*json, nlohmann::json::parse(config), {});
    if (!tokenizer.ok()) return tokenizer.status();
    return (*tokenizer)->end_of_text();
  };
  EXPECT_EQ(*end("null"), 901);
  EXPECT_EQ(*end(R"({"eos_token": "<|eot_id|>"})"), 904);
  EXPECT_EQ(*end(R"({"eos_token": {"content": "<|eot_id|>"}})"), 904);
  // A token that no other file has becomes one, as in transformers.
  EXPECT_EQ(*end(R"({"eos_token": "<|nowhere|>"})"),
            *end("null") + (*json)["added_tokens"].size() - 1);
}

TEST(SentencePieceTest, BadFilesAreRefused) {
  for (const char* const bytes : {"", "no model", "\x0a\xff"}) {
    EXPECT_EQ(SentencePieceFromBytes(bytes, nullptr, false).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  // A piece of 6 bytes with a text of 3 million, for which the library would make room.
  const absl::Status too_long =
      SentencePieceFromBytes(std::string("\x0a\x06\x0a\xc0\x8d\xb7\x01x"), nullptr, false).status();
  EXPECT_EQ(too_long.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(too_long.message()), ::testing::HasSubstr("cut short"));
  // A piece that begins with a zero byte, for which the library throws an exception.
  const std::string zero("\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02\x0a\x07\x0a\x05\0\0%\x81\x06",
                         25);
  EXPECT_EQ(SentencePieceFromBytes(zero, nullptr, false).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto special = OpenTokenizer(FolderOf("sentencepiece"), {.parse_special = true});
  EXPECT_EQ(special.status().code(), absl::StatusCode::kUnimplemented) << special.status();
}

// A directory as transformers' slow LlamaTokenizer saves it.
TEST(SentencePieceTest, TheFilesBesideItAddTokens) {
  const TemporaryDirectory dir;
  dir.Write("tokenizer.model", *ReadFile(FolderOf("sentencepiece") + "/tokenizer.model"));
  const auto plain = OpenTokenizer(dir.path());
  ASSERT_TRUE(plain.ok()) << plain.status();
  const int32_t size = (*plain)->vocab_size();
  const std::string user = absl::StrCat(size);
  const std::string call = absl::StrCat(size + 1);
  const auto open = [&](const char* more) {
    dir.Write("tokenizer_config.json",
              absl::StrCat(R"({"added_tokens_decoder": {")", user,
                           R"(": {"content": "<|user|>", "special": true}, ")", call,
                           R"(": {"content": "<call>"}})", more, "}"));
    return OpenTokenizer(dir.path());
  };
  const auto legacy = open("");
  ASSERT_TRUE(legacy.ok()) << legacy.status();
  EXPECT_EQ((*legacy)->vocab_size(), size + 2);
  EXPECT_EQ((*legacy)->Find("<|user|>"), size);
  EXPECT_EQ((*legacy)->prefix(), (*plain)->prefix());
  EXPECT_TRUE((*legacy)->suffix().empty());
  EXPECT_FALSE((*legacy)->CutsAtSpaces());
  EXPECT_EQ(*(*legacy)->Decode({size, size + 1}), "<|user|><call>");
  // Special tokens in text are text; others are found.
  EXPECT_EQ(*(*legacy)->Encode("<|user|>"), *(*plain)->Encode("<|user|>"));
  std::vector<int32_t> expected = *(*plain)->Encode("f");
  expected.push_back(size + 1);
  const std::vector<int32_t> after = *(*plain)->Encode("x");
  expected.insert(expected.end(), after.begin(), after.end());
  EXPECT_EQ(*(*legacy)->Encode("f<call>x"), expected);
  std::vector<std::pair<std::string, std::optional<int32_t>>> parts;
  EXPECT_TRUE((*legacy)
                  ->SplitSpecial("a<|user|>b",
                                 [&](absl::string_view part, std::optional<int32_t> token) {
                                   parts.emplace_back(part, token);
                                   return absl::OkStatus();
                                 })
                  .ok());
  EXPECT_THAT(parts, ::testing::ElementsAre(::testing::Pair("a", std::nullopt),
                                            ::testing::Pair("<|user|>", size),
                                            ::testing::Pair("b", std::nullopt)));

  const auto strict = open(R"(, "legacy": false, "add_bos_token": false, "add_eos_token": true)");
  ASSERT_TRUE(strict.ok()) << strict.status();
  EXPECT_TRUE((*strict)->prefix().empty());
  EXPECT_THAT((*strict)->suffix(), ::testing::ElementsAre((*plain)->end_of_text()));
  // The ids of LlamaTokenizer in transformers 4.57.1, without the tokens around the text.
  const auto check = [](const Tokenizer& tokenizer, const std::string& text,
                        const std::vector<int32_t>& ids) {
    EXPECT_EQ(*tokenizer.Encode(text), ids) << text;
  };
  check(**legacy, "f<call>x", {274, 701, 619, 669});
  check(**legacy, "f <call> x", {274, 619, 701, 619, 619, 669});
  check(**legacy, "one two<call>\nx", {376, 598, 701, 619, 13, 669});
  check(**legacy, "\xC3\xA9<call>\xC3\xA9", {619, 198, 172, 701, 619, 198, 172});
  check(**strict, "f<call>x", {274, 701, 669});
  check(**strict, "f <call> x", {274, 619, 701, 619, 669});
  check(**strict, "one two<call>\nx", {376, 598, 701, 13, 669});
  check(**strict, "\xC3\xA9<call>\xC3\xA9", {619, 198, 172, 701, 198, 172});
  EXPECT_EQ(*(*open(R"(, "legacy": false)"))->Decode({1, 376}), "<s>one");
  for (const std::string text : {"f<call>x", "f <call> x", "f<call>  x<call>", "<call> "}) {
    EXPECT_EQ(*(*strict)->Decode(*(*strict)->Encode(text)), text);
  }
}

// The tokenizer of a model of text may have a token for images, for which the model has no row.
TEST(TokenizerJsonTest, NoTextHasASpecialTokenThatIsNotParsed) {
  const auto json = ReadJsonFile(FolderOf("llama3") + "/tokenizer.json");
  ASSERT_TRUE(json.ok()) << json.status();
  const auto open = [&](bool parse_special, const char* added, bool special) {
    nlohmann::json with = *json;
    const auto size = static_cast<int32_t>(json->at("model").at("vocab").size() +
                                           json->at("added_tokens").size());
    if (added != nullptr) {
      with["added_tokens"].push_back({{"id", size + 7},
                                      {"content", added},
                                      {"special", special},
                                      {"normalized", false},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false}});
    }
    auto tokenizer = TokenizerFromJson(with, nullptr, {.parse_special = parse_special});
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return std::pair((*tokenizer)->text_vocab_size(), (*tokenizer)->vocab_size() - size - 8);
  };
  const int32_t before = open(false, nullptr, false).first;
  EXPECT_EQ(open(false, "<image>", true), std::pair(before, 0));
  EXPECT_GT(open(true, "<image>", true).first, before + 7);
  EXPECT_EQ(open(true, "<image>", true).first, open(false, "<tool>", false).first);
}

TEST(SentencePieceTest, TheConfigSaysWhichTokensBeginAndEndAText) {
  const TemporaryDirectory dir;
  dir.Write("tokenizer.model", *ReadFile(FolderOf("sentencepiece") + "/tokenizer.model"));
  const auto plain = OpenTokenizer(dir.path());
  ASSERT_TRUE(plain.ok()) << plain.status();
  const int32_t size = (*plain)->vocab_size();
  EXPECT_EQ((*plain)->begin_of_text(), 1);
  EXPECT_EQ((*plain)->end_of_text(), 2);
  // transformers skips a token without a spelling.
  dir.Write("tokenizer_config.json", R"({"bos_token": "", "eos_token": ""})");
  const auto unnamed = OpenTokenizer(dir.path());
  ASSERT_TRUE(unnamed.ok()) << unnamed.status();
  EXPECT_EQ((*unnamed)->begin_of_text(), 1);
  EXPECT_EQ((*unnamed)->end_of_text(), 2);
  dir.Write("tokenizer_config.json",
            R"({"add_bos_token": false, "add_eos_token": true, "eos_token": "<|im_end|>"})");
  const auto chatml = OpenTokenizer(dir.path());
  ASSERT_TRUE(chatml.ok()) << chatml.status();
  EXPECT_EQ((*chatml)->vocab_size(), size + 1);
  EXPECT_EQ((*chatml)->end_of_text(), size);
  EXPECT_THAT((*chatml)->suffix(), ::testing::ElementsAre(size));
  EXPECT_TRUE((*chatml)->prefix().empty());
  EXPECT_EQ((*chatml)->begin_of_text(), 1);
  EXPECT_EQ((*chatml)->text_vocab_size(), size + 1);
  dir.Write("tokenizer_config.json", R"({"bos_token": "<|begin|>"})");
  const auto begun = OpenTokenizer(dir.path());
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ((*begun)->begin_of_text(), size);
  EXPECT_THAT((*begun)->prefix(), ::testing::ElementsAre(size));
  EXPECT_EQ((*begun)->text_vocab_size(), size + 1);
  // No text has padding, so a model needs no row for it. A chat template may still write it.
  dir.Write("tokenizer_config.json", R"({"pad_token": "[PAD]", "legacy": false})");
  const auto padded = OpenTokenizer(dir.path());
  ASSERT_TRUE(padded.ok()) << padded.status();
  EXPECT_EQ((*padded)->text_vocab_size(), size);
  EXPECT_EQ((*padded)->vocab_size(), size + 1);
  EXPECT_EQ(*(*padded)->Decode({size}), "[PAD]");
  EXPECT_TRUE((*padded)->CutsAtSpaces());
}

// The ids of "added_tokens_decoder" count, as in transformers 4.
TEST(SentencePieceTest, TheConfigListsAnyId) {
  const TemporaryDirectory dir;
  dir.Write("tokenizer.model", *ReadFile(FolderOf("sentencepiece") + "/tokenizer.model"));
  const auto plain = OpenTokenizer(dir.path());
  ASSERT_TRUE(plain.ok()) << plain.status();
  const int32_t size = (*plain)->vocab_size();
  const int32_t x = (*plain)->Find("x").value();
  constexpr int32_t kReserved = 600;
  const auto open = [&](const char* more) {
    dir.Write(
        "tokenizer_config.json",
        absl::StrCat(R"({"added_tokens_decoder": {"2": {"content": "</s>", "rstrip": true}, ")", x,
                     R"(": {"content": "x"}, ")", kReserved,
                     R"(": {"content": "<|im_start|>", "special": true}, ")", size + 3,
                     R"(": {"content": "<call>"}})", more, "}"));
    return OpenTokenizer(dir.path());
  };
  const auto listed = open("");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ((*listed)->Find("<|im_start|>"), kReserved);
  EXPECT_EQ((*listed)->vocab_size(), size + 4);
  EXPECT_EQ(*(*listed)->Decode({kReserved, size + 1, size + 3}), "<|im_start|><call>");
  // A control token is special, whatever the config says: in text it is text.
  EXPECT_EQ(*(*listed)->Encode("</s> a"), *(*plain)->Encode("</s> a"));
  EXPECT_FALSE((*listed)->CutsAtSpaces());  // "legacy" puts a space behind each added token
  for (const std::string text : {"fxf", "f x f", "x  f", "<call> x<call>"}) {
    EXPECT_EQ(*(*listed)->Decode(*(*listed)->Encode(text)), text);
  }
  // The ids of LlamaTokenizer in transformers 4.57.1.
  EXPECT_THAT(*(*listed)->Encode("fxf"), ::testing::ElementsAre(274, x, 274));
  EXPECT_THAT(*(*listed)->Encode("f x f"), ::testing::ElementsAre(274, 619, x, 619, 274));
  const auto strict = open(R"(, "legacy": false)");
  ASSERT_TRUE(strict.ok()) << strict.status();
  ASSERT_TRUE((*strict)->CutsAtSpaces());
  EXPECT_THAT(*(*strict)->Encode("fxf"), ::testing::ElementsAre(274, x, 633));
  EXPECT_THAT(*(*strict)->Encode("f x f"), ::testing::ElementsAre(274, 619, x, 274));
  for (const std::string text : {"fxf", "f x f", "x  f", "<call> x<call>  f </s> f"}) {
    const std::vector<int32_t> whole = *(*strict)->Encode(text);
    EXPECT_EQ(*(*strict)->Decode(whole), text);
    for (size_t cut = text.find(' '); cut != std::string::npos; cut = text.find(' ', cut + 1)) {
      if (cut == 0 || text[cut - 1] == ' ') continue;
      std::vector<int32_t> parts = *(*strict)->Encode(text.substr(0, cut));
      ASSERT_TRUE((*strict)
                      ->EncodeTo(text.substr(cut), /*continues=*/true,
                                 [&](absl::Span<const int32_t> ids) {
                                   parts.insert(parts.end(), ids.begin(), ids.end());
                                 })
                      .ok());
      EXPECT_EQ(parts, whole) << text << " cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace zeroth
