// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/evaluate/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/chat/conversations.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"
#include "zeroth/tools/model/loaded_model.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

class Tokens final : public TokenSource {
 public:
  Tokens(int64_t count, int64_t row_length)
      : TokenSource({count, row_length, false, "tokens", {}}) {
    for (int64_t i = 0; i < count; ++i) values_.push_back(static_cast<int32_t>(i * i * 7 % 251));
  }
  int32_t at(int64_t i) const { return values_[static_cast<size_t>(i)]; }

 private:
  absl::Status DoRead(int64_t begin, absl::Span<int32_t> out) const override {
    std::copy_n(values_.begin() + begin, out.size(), out.begin());
    return absl::OkStatus();
  }

  std::vector<int32_t> values_;
};

// A "model" whose -log p depends on the token and on the number of tokens before it.
double Surprise(int32_t token, int64_t before) {
  return 1.0 + token / 300.0 + 1.0 / static_cast<double>(before);
}
absl::StatusOr<double> SurpriseOf(absl::Span<const int32_t> tokens, int64_t from) {
  EXPECT_GE(from, 1);
  double sum = 0;
  for (size_t i = static_cast<size_t>(from); i < tokens.size(); ++i) {
    sum += Surprise(tokens[i], static_cast<int64_t>(i));
  }
  return sum;
}

// For each token, finds the first window that contains it after another token.
TEST(PerplexityTest, EachTokenIsPredictedByTheFirstWindowThatHasIt) {
  for (const auto& [count, row, length, stride] :
       std::vector<std::array<int64_t, 4>>{{100, 0, 16, 8},
                                           {100, 0, 16, 5},
                                           {100, 0, 16, 16},
                                           {16, 0, 16, 3},
                                           {97, 0, 100, 50},
                                           {90, 30, 16, 4},
                                           {90, 9, 16, 16},
                                           {33, 0, 16, 16},
                                           {50, 0, 2, 1}}) {
    SCOPED_TRACE(absl::StrCat(count, " tokens in rows of ", row, ", ", length, " / ", stride));
    const Tokens data(count, row);
    double sum = 0;
    int64_t predicted = 0;
    const int64_t sequence = row == 0 ? count : row;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = i % sequence;
      int64_t window = 0;
      while (window + length <= place) window += stride;
      if (place == window) continue;  // nothing before it
      sum += Surprise(data.at(i), place - window);
      ++predicted;
    }
    const auto found = MeasurePerplexity(data, {length, stride}, SurpriseOf);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->tokens, predicted);
    EXPECT_NEAR(found->mean, sum / static_cast<double>(predicted), 1e-12);
  }
}

TEST(PerplexityTest, SaysWhatIsWrong) {
  const auto error = [](int64_t count, const WindowOptions& options) {
    const auto found = MeasurePerplexity(Tokens(count, 0), options, SurpriseOf);
    EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << found.status();
    return std::string(found.status().message());
  };
  EXPECT_THAT(error(9, {1, 1}), HasSubstr("windows of 1 tokens"));
  EXPECT_THAT(error(9, {4, 5}), HasSubstr("at a stride of 5, expected"));
  EXPECT_THAT(error(9, {4, 0}), HasSubstr("at a stride of 0"));
  EXPECT_THAT(error(1, {4, 2}), HasSubstr("tokens: 1 tokens, expected at least two"));
}

// The model's -log of the softmax, in float64 from its logits.
TEST(PerplexityTest, LikelihoodsAreThoseOfTheLogits) {
  for (const char* model : {"gpt2_tiny", "mistral_tiny", "qwen3_moe_tiny"}) {
    LoadModelOptions options;
    options.model = absl::StrCat("tests/testdata/", model);
    const auto loaded = LoadedModel::Open(options);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    std::vector<int32_t> tokens(20);
    const Tokens source(20, 0);
    ASSERT_TRUE(source.Read(0, absl::MakeSpan(tokens)).ok());
    const std::vector<float> logits =
        (*loaded)->Logits(tokens, 0, nullptr)->ToHost<float>().value();
    const size_t vocab = logits.size() / tokens.size();
    for (const int64_t from : {1, 7, 19, 20}) {
      double expected = 0;
      for (size_t i = static_cast<size_t>(from); i < tokens.size(); ++i) {
        const float* row = logits.data() + (i - 1) * vocab;
        double total = 0;
        for (size_t v = 0; v < vocab; ++v) total += std::exp(static_cast<double>(row[v]));
        expected += std::log(total) - static_cast<double>(row[tokens[i]]);
      }
      const auto found = (*loaded)->NegativeLogLikelihood(tokens, from);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_NEAR(*found, expected, 1e-6 * expected + 1e-12);
    }
    EXPECT_TRUE(absl::IsInvalidArgument((*loaded)->NegativeLogLikelihood(tokens, 0).status()));
  }
}

// Scores by the requested ending; also records the requests.
class Scripted {
 public:
  explicit Scripted(std::map<std::string, double> scores) : scores_(std::move(scores)) {}
  absl::StatusOr<double> operator()(absl::Span<const int32_t> tokens, int64_t from) {
    const auto part = [&](size_t begin, size_t end) {
      std::string text;
      for (size_t i = begin; i < end; ++i) text += static_cast<char>(tokens[i]);
      return text;
    };
    const std::string ending = part(static_cast<size_t>(from), tokens.size());
    asked_.push_back(absl::StrCat(part(0, static_cast<size_t>(from)), "|", ending));
    return -scores_.at(ending);
  }
  const std::vector<std::string>& asked() const { return asked_; }

 private:
  std::map<std::string, double> scores_;
  std::vector<std::string> asked_;
};

// The chosen answer of the first pair is likelier by sum and by mean, that of the second by
// neither, that of the third by its mean alone.
TEST(PairsTest, AnswersAreComparedBySumAndByMean) {
  const TemporaryDirectory dir;
  const auto line = [](const char* chosen, const char* rejected) {
    return absl::StrCat(R"({"prompt": "ab", "chosen": ")", chosen, R"(", "rejected": ")", rejected,
                        "\"}\n");
  };
  const std::string path =
      dir.Write("pairs.jsonl", line("!", "~~") + line("~~", "!") + line("!!!!", "~"));
  const ByteTokenizer tokenizer;
  ConversationOptions options = {24};
  options.pairs = true;
  const auto rows =
      EncodeConversations({{path, DataFileKind::kJsonLines}}, nullptr, tokenizer, options);
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::vector<std::string> seen;
  const auto likelihood = [&](absl::Span<const int32_t> tokens,
                              int64_t from) -> absl::StatusOr<double> {
    std::string text;
    for (const int32_t token : tokens) text += token == 256 ? "$" : std::string(1, char(token));
    seen.push_back(text);
    EXPECT_EQ(from, 2) << text;
    return SurpriseOf(tokens, from);
  };
  const absl::StatusOr<ChoiceScores> scores = MeasurePairs(**rows, likelihood);
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ(seen, (std::vector<std::string>{"ab!$", "ab~~$", "ab~~$", "ab!$", "ab!!!!$", "ab~$"}));
  EXPECT_EQ(scores->questions, 3);
  EXPECT_EQ(scores->tokens, 2 + 3 + 3 + 2 + 5 + 2);
  EXPECT_DOUBLE_EQ(scores->accuracy, 1.0 / 3);
  EXPECT_DOUBLE_EQ(scores->normalized_accuracy, 2.0 / 3);
}

TEST(ChoicesTest, AreScoredWithAndWithoutTheirLength) {
  // Characters count, not bytes: "äää" has three.
  Scripted model({{" yes", -3.5}, {" certainly", -6.0}, {" no", -9.0}, {" äää", -4.0}});
  const std::vector<Question> questions = {
      {"a", {"yes", "certainly", "no"}, 0},  // the likeliest; for its length, certainly is
      {"b", {"yes", "certainly"}, 1},        // the likeliest for its length only
      {"c", {"no", "certainly", "yes"}, 0},  // neither
      {"d", {"äää", "yes"}, 0},              // neither: -4.0 < -3.5, and -1.33 < -1.17
  };
  const auto found = MeasureChoices(
      questions, ByteTokenizer(), 100,
      [&](absl::Span<const int32_t> tokens, int64_t from) { return model(tokens, from); });
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->questions, 4);
  // Bytes of the endings, each with the space before it.
  EXPECT_EQ(found->tokens, (4 + 10 + 3) + (4 + 10) + (3 + 10 + 4) + (7 + 4));
  EXPECT_EQ(found->accuracy, 0.25);
  EXPECT_EQ(found->normalized_accuracy, 0.25);
  EXPECT_NEAR(found->StandardError(0.25), std::sqrt(0.25 * 0.75 / 3), 1e-15);
  EXPECT_EQ(model.asked()[0], "a| yes");
  EXPECT_EQ(model.asked()[1], "a| certainly");
}

// As lm-evaluation-harness 0.4.13, which leaves special tokens to the tokenizer.
TEST(ChoicesTest, TextsBeginAsTheTokenizerSays) {
  const auto tokenizer = OpenTokenizer("tests/testdata/tokenizers/llama3");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const int32_t begin = (*tokenizer)->prefix().at(0);
  for (const char* context : {"ab", ""}) {
    const auto found = MeasureChoices(
        {{context, {"x"}, 0}}, **tokenizer, 50,
        [&](absl::Span<const int32_t> tokens, int64_t from) -> absl::StatusOr<double> {
          EXPECT_EQ(tokens[0], begin);
          EXPECT_EQ(*(*tokenizer)->Decode(tokens.subspan(1)), absl::StrCat(context, " x"));
          EXPECT_EQ(*(*tokenizer)->Decode(tokens.first(static_cast<size_t>(from)).subspan(1)),
                    context);
          return 1.0;
        });
    EXPECT_TRUE(found.ok()) << found.status();
  }
}

TEST(ChoicesTest, LongContextsAreCutOnTheLeftAndSpacesGoToTheEnding) {
  Scripted model({{" x", -1.0}, {"  x", -1.0}});
  const auto measure = [&](const std::string& context, int64_t max_length) {
    return MeasureChoices(
        {{context, {"x"}, 0}}, ByteTokenizer(), max_length,
        [&](absl::Span<const int32_t> tokens, int64_t from) { return model(tokens, from); });
  };
  ASSERT_TRUE(measure("abcdef", 5).ok());
  EXPECT_EQ(model.asked().back(), "cdef| x") << "six tokens take five positions";
  ASSERT_TRUE(measure("abcdef ", 50).ok());
  EXPECT_EQ(model.asked().back(), "abcdef|  x");
  ASSERT_TRUE(measure("", 50).ok());
  EXPECT_EQ(model.asked().back().substr(1), "| x") << "after the end-of-text token";
  const auto long_one = measure("abc", 1);
  EXPECT_THAT(std::string(long_one.status().message()), HasSubstr("has 2 tokens, expected 1 to"));
}

TEST(ChoicesTest, ReadsHellaSwagsLines) {
  const TemporaryDirectory dir;
  const std::string good =
      "{\"ind\": 3, \"ctx\": \"A man\", \"endings\": [\"sits.\", \"eats.\"], \"label\": 1}\n\n"
      "{\"ctx\": \"B\", \"endings\": [\"x\", \"y\", \"z\"], \"label\": \"2\", \"split\": "
      "\"val\"}\n";
  const auto questions = ReadQuestions(dir.Write("good.jsonl", good), 0);
  ASSERT_TRUE(questions.ok()) << questions.status();
  ASSERT_EQ(questions->size(), 2u);
  EXPECT_EQ((*questions)[0].context, "A man");
  EXPECT_EQ((*questions)[0].endings[0], "sits.");
  EXPECT_EQ((*questions)[0].label, 1u);
  EXPECT_EQ((*questions)[1].label, 2u);
  EXPECT_EQ(ReadQuestions(dir.File("good.jsonl"), 1)->size(), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadQuestions(dir.File("good.jsonl"), -1).status()));
  const auto error = [&](const std::string& line) {
    const auto read = ReadQuestions(dir.Write("bad.jsonl", line), 0);
    EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << read.status();
    return std::string(read.status().message());
  };
  EXPECT_THAT(error(""), HasSubstr("no questions"));
  EXPECT_THAT(error(absl::StrCat(good, "{")), HasSubstr("bad.jsonl line 4"));
  EXPECT_THAT(error("{\"endings\": []}"), HasSubstr("expected an object with \"ctx\""));
  EXPECT_THAT(error("{\"ctx\": \"a\"}"), HasSubstr("expected \"endings\""));
  EXPECT_THAT(error("{\"ctx\": \"a\", \"endings\": [\"\"]}"), HasSubstr("an ending is"));
  EXPECT_THAT(error("{\"ctx\": \"a\", \"endings\": [\"b\"], \"label\": \"\"}"),
              HasSubstr("\"label\" is \"\", expected"));
  EXPECT_THAT(error("{\"ctx\": \"a\", \"endings\": [\"b\"], \"label\": 1}"),
              HasSubstr("the number of one of 1 endings"));
}

TEST(EvaluateProgramTest, PrintsBothAndFailsWithAMessage) {
  const TemporaryDirectory dir;
  const auto run = [&](const std::string& flags) {
    return std::system(absl::StrCat("tools/evaluate/evaluate ", flags, " >", dir.File("out"), " 2>",
                                    dir.File("err"))
                           .c_str()) == 0;
  };
  const std::string model = "--model=tests/testdata/llama_tiny ";
  const std::string questions = dir.Write(
      "q.jsonl", "{\"ctx\": \"A man\", \"endings\": [\"sits.\", \"eats.\"], \"label\": 1}\n");
  ASSERT_TRUE(run(absl::StrCat(model,
                               "--data=tests/testdata/llama_tiny/tokens.npy --seq_len=32 "
                               "--stride=16 --multiple_choice=",
                               questions)))
      << ReadTestFile(dir.File("err"));
  const std::string out = ReadTestFile(dir.File("out"));
  // 160 rows of 33 tokens, of which 32 are predicted: by windows that end at 32 and at 33.
  EXPECT_THAT(out,
              HasSubstr(" on average of 5120 tokens, in 320 windows of 32 at a stride of 16\n"));
  EXPECT_THAT(out, HasSubstr("of 1 questions, 12 tokens scored in "));
  ASSERT_TRUE(run(absl::StrCat(model,
                               "--json --data=tests/testdata/llama_tiny/tokens.npy --seq_len=32 "
                               "--stride=16 --multiple_choice=",
                               questions)))
      << ReadTestFile(dir.File("err"));
  const auto json = nlohmann::json::parse(ReadTestFile(dir.File("out")), nullptr, false);
  ASSERT_TRUE(json.is_object()) << ReadTestFile(dir.File("out"));
  EXPECT_THAT(out, HasSubstr(absl::StrFormat("perplexity %.6g: -log p is %.6f on average of %d ",
                                             json["perplexity"].get<double>(),
                                             json["mean_loss"].get<double>(),
                                             json["tokens"].get<int64_t>())));
  const nlohmann::json& choices = json["multiple_choice"];
  EXPECT_THAT(out, HasSubstr(absl::StrFormat("acc %.4f ", choices["accuracy"].get<double>())));
  EXPECT_EQ(choices["questions"], 1);
  EXPECT_EQ(choices["tokens"], 12);
  EXPECT_GT(choices["seconds"], 0);
  EXPECT_EQ(choices["accuracy_error"], 0);
  EXPECT_FALSE(run(model));
  EXPECT_THAT(ReadTestFile(dir.File("err")), HasSubstr("error: nothing to measure"));
  const std::string tokens = "--data=tests/testdata/llama_tiny/tokens.npy ";
  const std::string choices_alone = absl::StrCat("--multiple_choice=", questions, " ");
  for (const auto& [flags, message] : std::vector<std::pair<std::string, std::string>>{
           {tokens + "--chat_template=chatml", "--chat_template needs --pairs or --write_topk"},
           {tokens + "--topk=8", "--topk needs --write_topk"},
           {tokens + "--limit=8", "--limit needs --multiple_choice"},
           {choices_alone + "--stride=8", "--stride needs --data"},
           {choices_alone + "--cache_dir=none", "--cache_dir needs --data"},
           {choices_alone + "--seq_len=8", "--seq_len needs --data or --pairs"}}) {
    EXPECT_FALSE(run(model + flags)) << flags;
    EXPECT_THAT(ReadTestFile(dir.File("err")), HasSubstr(message)) << flags;
  }
  const std::string chat = dir.Write("chat.jsonl", "{\"messages\": []}\n");
  EXPECT_FALSE(run(absl::StrCat(model, "--data=", chat)));
  EXPECT_THAT(ReadTestFile(dir.File("err")),
              HasSubstr("chat.jsonl holds messages records, expected"));
  EXPECT_FALSE(run("--data=x"));
  EXPECT_THAT(ReadTestFile(dir.File("err")), HasSubstr("error: --model is missing"));
}

// Tokens encoded by the trainer are reused, and results equal those of fresh text.
TEST(EvaluateProgramTest, ReadsWhatTheTrainerHasEncoded) {
  const TemporaryDirectory dir;
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += "{\"text\": \"one and two and three\"}\n";
  const std::string data = dir.Write("text.jsonl", lines);
  const auto run = [&](const std::string& command) {
    return std::system(
               absl::StrCat(command, " >", dir.File("out"), " 2>", dir.File("err")).c_str()) == 0;
  };
  const auto entries = [&](const std::string& cache) {
    std::set<std::string> names;
    if (!std::filesystem::exists(cache)) return names;
    for (const auto& entry : std::filesystem::directory_iterator(cache)) {
      if (entry.is_directory()) names.insert(entry.path().filename().string());
    }
    return names;
  };
  const std::string evaluate = absl::StrCat(
      "tools/evaluate/evaluate --model=tests/testdata/llama_tiny --seq_len=32 --data=", data);
  ASSERT_TRUE(run(absl::StrCat(evaluate, " --cache_dir=none"))) << ReadTestFile(dir.File("err"));
  const std::string plain = ReadTestFile(dir.File("out"));
  EXPECT_TRUE(entries(dir.File(".zeroth_cache")).empty());
  ASSERT_TRUE(
      run(absl::StrCat("train/train --init_from=tests/testdata/llama_tiny --seq_len=32 "
                       "--batch_size=1 --steps=1 --sample_tokens=0 --data=",
                       data, " --out=", dir.File("run"))))
      << ReadTestFile(dir.File("err"));
  const std::set<std::string> encoded = entries(dir.File(".zeroth_cache"));
  ASSERT_EQ(encoded.size(), 1u);
  ASSERT_TRUE(run(evaluate)) << ReadTestFile(dir.File("err"));
  EXPECT_EQ(ReadTestFile(dir.File("out")), plain);
  EXPECT_EQ(entries(dir.File(".zeroth_cache")), encoded);
  ASSERT_TRUE(run(absl::StrCat(evaluate, " --cache_dir=", dir.File("elsewhere"))))
      << ReadTestFile(dir.File("err"));
  EXPECT_EQ(ReadTestFile(dir.File("out")), plain);
  EXPECT_EQ(entries(dir.File("elsewhere")), encoded) << "a name says what was encoded";
}

}  // namespace
}  // namespace zeroth
