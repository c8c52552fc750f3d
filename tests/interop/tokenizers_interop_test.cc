// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Random text of all of Unicode, encoded by Hugging Face's library and by ours, and vocabularies
// that came through a GGUF file.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"
#include "zeroth/tests/interop/python.h"

namespace zeroth {
namespace {

std::vector<std::string> Lines(const PythonOutcome& outcome) {
  EXPECT_TRUE(outcome.ok()) << outcome.errors;
  return absl::StrSplit(outcome.output, '\n', absl::SkipEmpty());
}

void CompareOn(const std::string& seed, const std::string& count) {
  if (!PythonHas("tokenizers")) GTEST_SKIP() << HowToGetPythonPackages();
  const TemporaryDirectory dir;
  const PythonOutcome random = RunPython("random_text.py", {seed, count});
  const std::vector<std::string> texts = Lines(random);
  ASSERT_EQ(absl::StrCat(texts.size()), count);
  const std::string file = dir.Write("texts", random.output);
  for (const char* const name : {"gpt2_json", "llama2", "llama3", "qwen2"}) {
    const std::string folder = absl::StrCat("tests/testdata/tokenizers/", name);
    for (const bool parse_special : {false, true}) {
      const auto tokenizer = OpenTokenizer(folder, {parse_special});
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
      const std::vector<std::string> theirs =
          Lines(RunPython("encode_with_tokenizers.py",
                          {folder + "/tokenizer.json", file, parse_special ? "true" : "false"}));
      ASSERT_EQ(theirs.size(), texts.size());
      for (size_t i = 0; i < texts.size(); ++i) {
        const auto text = nlohmann::json::parse(texts[i]).get<std::string>();
        const nlohmann::json expected = nlohmann::json::parse(theirs[i]);
        const auto ids = (*tokenizer)->Encode(text);
        ASSERT_TRUE(ids.ok()) << ids.status();
        EXPECT_EQ(nlohmann::json(*ids), expected["ids"]) << name << " " << texts[i];
        EXPECT_EQ(nlohmann::json(*(*tokenizer)->DecodeUtf8Text(*ids)), expected["decoded"])
            << name << " " << texts[i];
      }
    }
  }
}

TEST(TokenizersInteropTest, RandomTextHasTheSameIds) { CompareOn("1", "1000"); }
TEST(TokenizersInteropTest, NightlyMuchRandomText) { CompareOn("2", "50000"); }

// Writes the vocabulary of a folder to dir/model.gguf, and to dir/back what the file becomes.
void ConvertVocabulary(const std::string& folder, const TemporaryDirectory& dir) {
  auto vocabulary = ReadHfVocabulary(folder);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  // The folders have no tokenizer_config.json.
  for (size_t id = 0; id < (*vocabulary)->types.size() && !(*vocabulary)->eos; ++id) {
    if ((*vocabulary)->types[id] == GgufTokenType::kControl) {
      (*vocabulary)->eos = static_cast<int64_t>(id);
    }
  }
  const auto size = static_cast<int64_t>((*vocabulary)->tokens.size());
  GgufMetadata metadata;
  metadata.SetString("general.architecture", "llama");
  const absl::Status set = SetVocabulary(**vocabulary, size, &metadata);
  ASSERT_TRUE(set.ok()) << set;
  auto writer = GgufWriter::Create(dir.File("model.gguf"), metadata, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto file = GgufFile::Open(dir.File("model.gguf"));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto read = VocabularyOf((*file)->metadata());
  ASSERT_TRUE(read.ok()) << read.status();
  const auto files = HfTokenizerFiles(**read);
  ASSERT_TRUE(files.ok()) << files.status();
  for (const auto& [name, content] : *files) dir.Write("back/" + name, content);
}

nlohmann::json Cases(const std::string& folder, const TemporaryDirectory& dir) {
  auto cases = ReadJsonFile(folder + "/cases.json");
  EXPECT_TRUE(cases.ok()) << cases.status();
  std::string texts;
  for (const nlohmann::json& each : *cases) absl::StrAppend(&texts, each["text"].dump(), "\n");
  dir.Write("texts", texts);
  return *std::move(cases);
}

TEST(TokenizersInteropTest, VocabulariesComeBackFromGguf) {
  for (const char* const name : {"gpt2_json", "llama3", "qwen2", "sentencepiece"}) {
    SCOPED_TRACE(name);
    const std::string folder = absl::StrCat("tests/testdata/tokenizers/", name);
    const bool is_json = std::string(name) != "sentencepiece";
    const TemporaryDirectory dir;
    ConvertVocabulary(folder, dir);
    const nlohmann::json cases = Cases(folder, dir);
    const auto tokenizer = OpenTokenizer(dir.File("back"), {.parse_special = is_json});
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    std::vector<std::string> theirs;
    if (is_json && PythonHas("tokenizers")) {
      theirs = Lines(RunPython("encode_with_tokenizers.py",
                               {dir.File("back/tokenizer.json"), dir.File("texts"), "true"}));
      ASSERT_EQ(theirs.size(), cases.size());
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      const nlohmann::json& each = cases[i];
      EXPECT_EQ(nlohmann::json(*(*tokenizer)->Encode(each["text"].get<std::string>())), each["ids"])
          << each["text"];
      if (theirs.empty()) continue;
      EXPECT_EQ(nlohmann::json::parse(theirs[i])["ids"], each["ids"]) << each["text"];
    }
  }
}

TEST(TokenizersInteropTest, LlamaCppsMergesOfSentencePieceHaveTheSameIds) {
  if (!PythonHas("json")) GTEST_SKIP() << "this machine has no python3";
  const std::string folder = "tests/testdata/tokenizers/sentencepiece";
  const TemporaryDirectory dir;
  ConvertVocabulary(folder, dir);
  const nlohmann::json cases = Cases(folder, dir);
  const std::vector<std::string> theirs =
      Lines(RunPython("encode_with_gguf.py", {dir.File("model.gguf"), dir.File("texts")}));
  ASSERT_EQ(theirs.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(nlohmann::json::parse(theirs[i]), cases[i]["ids"]) << cases[i]["text"];
  }
}

}  // namespace
}  // namespace zeroth
