// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares tools/generate and tools/evaluate with transformers for each family.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/data/open_data.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/nn/generate.h"
#include "zeroth/tests/interop/python.h"
#include "zeroth/tools/evaluate/evaluate.h"
#include "zeroth/tools/model/loaded_model.h"

namespace zeroth {
namespace {

// The script's exit code for "no such package".
constexpr int kNoPackage = 77;

constexpr int64_t kTokens = 200;
constexpr int64_t kLength = 32;
constexpr int64_t kStride = 12;

std::vector<Question> RandomQuestions() {
  const CounterRng rng(5, "questions");
  uint64_t draws = 0;
  const auto word = [&](size_t longest) {
    std::string text;
    for (size_t length = 3 + rng.Bits(draws++) % longest; text.size() < length;) {
      text += static_cast<char>('a' + rng.Bits(draws++) % 26);
    }
    return text;
  };
  std::vector<Question> questions(30);
  for (Question& question : questions) {
    question.context = word(20);
    for (int i = 0; i < 4; ++i) question.endings.push_back(word(12));
    question.label = rng.Bits(draws++) % 4;
  }
  return questions;
}

class EvaluationTest : public ::testing::TestWithParam<const char*> {};

TEST_P(EvaluationTest, TextAndNumbersAreThoseOfTransformers) {
  const std::string path = absl::StrCat("tests/testdata/", GetParam());
  LoadModelOptions options;
  options.model = path;
  const auto loaded = LoadedModel::Open(options);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto rows = OpenData(absl::StrCat(path, "/tokens.npy"), {nullptr, 257});
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::vector<int32_t> tokens(kTokens);
  ASSERT_TRUE((*rows)->Read(0, absl::MakeSpan(tokens)).ok());
  const std::vector<Question> questions = RandomQuestions();

  nlohmann::json request = {{"tokens", tokens},
                            {"length", kLength},
                            {"stride", kStride},
                            {"new_tokens", 40},
                            {"questions", nlohmann::json::array()}};
  request["prompt"] = std::vector<int32_t>(tokens.begin(), tokens.begin() + 9);
  for (const Question& question : questions) {
    request["questions"].push_back(
        {{"ctx", question.context}, {"endings", question.endings}, {"label", question.label}});
  }
  const TemporaryDirectory dir;
  const PythonOutcome outcome =
      RunPython("evaluate_with_transformers.py", {path, dir.Write("request.json", request.dump())});
  if (outcome.exit_code == kNoPackage) GTEST_SKIP() << HowToGetTransformers();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
  const nlohmann::json expected =
      nlohmann::json::parse(outcome.output.substr(outcome.output.find("{\"generated\"")));

  LoadedModel& model = **loaded;
  GenerateOptions generate;
  generate.max_tokens = 40;
  generate.sampling.temperature = 0;
  generate.stop_tokens = model.StopTokens(ByteTokenizer()).value();
  const auto generated =
      Generate(model.model(), request["prompt"].get<std::vector<int32_t>>(), generate,
               [&](absl::Span<const int32_t> ids, int64_t from, KeyValueCache* cache) {
                 return model.Logits(ids, from, cache);
               });
  ASSERT_TRUE(generated.ok()) << generated.status();
  EXPECT_EQ(nlohmann::json(*generated), expected["generated"]);

  const auto likelihood = [&](absl::Span<const int32_t> ids, int64_t from) {
    return model.NegativeLogLikelihood(ids, from);
  };
  const auto perplexity =
      MeasurePerplexity(TokensInMemory<int32_t>(tokens, {}), {kLength, kStride}, likelihood);
  ASSERT_TRUE(perplexity.ok()) << perplexity.status();
  EXPECT_EQ(perplexity->tokens, kTokens - 1);
  EXPECT_NEAR(perplexity->mean, expected["mean"].get<double>(), 1e-5);
  const auto scores =
      MeasureChoices(questions, ByteTokenizer(), model.model().max_seq_len(), likelihood);
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ(scores->accuracy, expected["accuracy"].get<double>());
  EXPECT_EQ(scores->normalized_accuracy, expected["normalized_accuracy"].get<double>());
}

INSTANTIATE_TEST_SUITE_P(Models, EvaluationTest,
                         ::testing::Values("gemma2_tiny", "gemma3_tiny", "gpt2_tiny", "llama_tiny",
                                           "llama31_tiny", "mistral_tiny", "mixtral_tiny",
                                           "olmo2_tiny", "phi3_tiny", "qwen2_tiny", "qwen3_5_tiny",
                                           "qwen3_moe_tiny", "qwen3_tiny"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace zeroth
