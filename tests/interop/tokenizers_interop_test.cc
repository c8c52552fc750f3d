// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Random text of all of Unicode, encoded by Hugging Face's library and by ours.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

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

}  // namespace
}  // namespace zeroth
