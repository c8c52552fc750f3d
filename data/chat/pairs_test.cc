// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests preference pairs and judged answers, from records to batches.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/ignored_target.h"
#include "zeroth/data/chat/conversations.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/open_data.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PairsTest : public testing::Test {
 protected:
  PairsTest()
      : tokenizer_(*OpenTokenizer("tests/testdata/tokenizers/qwen2")),
        chat_(*ChatTemplate::Named("chatml", *tokenizer_)) {}

  absl::StatusOr<std::shared_ptr<const TokenSource>> Encode(const std::string& lines,
                                                            int64_t seq_len,
                                                            OnLong on_long = OnLong::kTruncate,
                                                            bool judgements = false,
                                                            bool scores = false) {
    ConversationOptions options = {seq_len};
    options.on_long = on_long;
    options.pairs = true;
    options.judgements = judgements;
    options.scores = scores;
    return EncodeConversations({{dir_.Write("c.jsonl", lines), DataFileKind::kJsonLines}}, &chat_,
                               *tokenizer_, options);
  }

  absl::StatusOr<std::shared_ptr<const TokenSource>> Open(const std::string& lines, bool pairs) {
    DataOptions options;
    options.tokenizer = tokenizer_.get();
    options.vocab_size = 200000;
    options.chat_template = "chatml";
    options.seq_len = 63;
    options.pairs = pairs;
    return OpenData(dir_.Write("o.jsonl", lines), options);
  }

  // Returns the targets of both answers of each pair, as the loader marks them.
  std::vector<std::string> Spelled(const std::shared_ptr<const TokenSource>& rows,
                                   int64_t batch_size, int64_t world = 1, int64_t rank = 0) {
    LoaderOptions options;
    options.batch_size = batch_size;
    options.seq_len = rows->row_length() - 1;
    options.world_size = world;
    options.rank = rank;
    options.shuffle = false;
    options.documents = true;
    options.pairs = true;
    options.judgements = true;
    const auto loader = DataLoader::Create(rows, options);
    if (!loader.ok()) return {std::string(loader.status().message())};
    const absl::StatusOr<Batch> batch = loader->Load(0);
    if (!batch.ok()) return {std::string(batch.status().message())};
    counted_ = batch->counted.value_or(-1);
    EXPECT_EQ(batch->pairs.size() % 3, 0u);
    std::vector<std::string> pairs;
    labels_.clear();
    EXPECT_EQ(batch->labels.size(), batch->pairs.size() / 3);
    for (size_t i = 0; i < batch->pairs.size(); i += 3) {
      const std::vector<int32_t> range(batch->pairs.begin() + i, batch->pairs.begin() + i + 3);
      if (range[0] == range[2]) continue;
      labels_.push_back(batch->labels[i / 3]);
      std::string text;
      for (const auto& [begin, end] : {std::pair(range[0], range[1]), {range[1], range[2]}}) {
        absl::StrAppend(&text, text.empty() ? "" : " | ");
        for (int32_t at = begin; at < end; ++at) {
          const auto place = static_cast<size_t>(at);
          EXPECT_EQ(batch->starts[place], begin % options.seq_len);
          const bool learned = batch->targets[place] != kIgnoredTarget;
          if (learned) absl::StrAppend(&text, *tokenizer_->Decode({batch->targets[place]}));
        }
      }
      pairs.push_back(text);
    }
    return pairs;
  }

  const TemporaryDirectory dir_;
  std::unique_ptr<Tokenizer> tokenizer_;
  ChatTemplate chat_;
  int64_t counted_ = 0;
  std::vector<int32_t> labels_;  // of the pairs
};

TEST_F(PairsTest, TextHasAPromptOrACommonBeginning) {
  const std::string answers = " blue<|endoftext|> |  red<|endoftext|>";
  for (const char* const line :
       {R"({"prompt": "The sky is", "chosen": " blue", "rejected": " red"})",
        R"({"chosen": "The sky is blue", "rejected": "The sky is red", "prompt": null})"}) {
    const auto rows = Encode(line, 31);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(Spelled(*rows, 1), std::vector<std::string>{answers});
    EXPECT_EQ(counted_, 1);
  }
}

// A score is that of the token before the target: the last of the answer, or the last that fits.
TEST_F(PairsTest, ScoredAnswersHaveOneTargetBehindTheirEnd) {
  // Each letter is a token: cut to eight tokens, the prompt and three letters of an answer remain,
  // of which the third is the target.
  const std::string line = R"({"prompt": "T", "chosen": "kqkqk", "rejected": "qkzqk"})";
  const std::string end = "<|endoftext|>";
  const std::vector<std::pair<int64_t, std::vector<std::string>>> cases = {{31, {end, end}},
                                                                           {7, {"q", "k"}}};
  for (const auto& [seq_len, expected] : cases) {
    SCOPED_TRACE(seq_len);
    const auto rows =
        Encode(line, seq_len, OnLong::kTruncate, /*judgements=*/false, /*scores=*/true);
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::vector<int32_t> ids(static_cast<size_t>(seq_len) + 1);
    std::vector<uint8_t> marks(ids.size());
    ASSERT_TRUE((*rows)->Read(0, absl::MakeSpan(ids)).ok());
    ASSERT_TRUE((*rows)->ReadMarks(0, absl::MakeSpan(marks)).ok());
    std::vector<std::string> scored;
    for (size_t i = 1; i < ids.size(); ++i) {
      if ((marks[i] & kNoTarget) == 0) scored.push_back(*tokenizer_->Decode({ids[i - 1]}));
    }
    EXPECT_EQ(scored, expected);
    EXPECT_EQ(Spelled(*rows, 1).size(), 1u);
    EXPECT_EQ(counted_, 1);
  }
}

// If an answer is truncated to one token, its only target follows the prompt's last token, which
// scores both answers alike.
TEST_F(PairsTest, AnswersCutToOneTokenHaveNoScore) {
  const std::string line = R"({"prompt": "T", "chosen": "kqkqk", "rejected": "qkzqk"})";
  EXPECT_TRUE(Encode(line, 3).ok());
  const absl::Status status =
      Encode(line, 3, OnLong::kTruncate, /*judgements=*/false, /*scores=*/true).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nothing is left to learn"));
  // The shorter pair of prompt and answer fits whole, and the longer one is cut.
  const std::string uneven = R"({"prompt": "Tzz", "chosen": "kqkqk", "rejected": "q"})";
  EXPECT_TRUE(Encode(uneven, 9, OnLong::kTruncate, /*judgements=*/false, /*scores=*/true).ok());
  EXPECT_FALSE(Encode(uneven, 8, OnLong::kTruncate, /*judgements=*/false, /*scores=*/true).ok());
  EXPECT_TRUE(Encode(uneven, 8).ok());
}

// A character whose first byte both answers have is not cut.
TEST_F(PairsTest, CommonBeginningsAreWholeCharacters) {
  const auto rows = Encode(R"({"chosen": "x é", "rejected": "x è"})", 31);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(Spelled(*rows, 1), std::vector<std::string>{" é<|endoftext|> |  è<|endoftext|>"});
}

TEST_F(PairsTest, OfMessagesOnlyTheAnswersAreLearned) {
  const std::string user = R"({"role": "user", "content": "Hi"})";
  const std::string before = R"({"role": "assistant", "content": "Hello"}, )" + user;
  const std::string good = R"({"role": "assistant", "content": "yes"})";
  const std::string bad = R"({"role": "assistant", "content": "no"})";
  const std::string answers = "yes<|im_end|> | no<|im_end|>";
  for (const std::string& line :
       {absl::StrCat(R"({"prompt": [)", user, ", ", before, R"(], "chosen": [)", good,
                     R"(], "rejected": [)", bad, "]}"),
        absl::StrCat(R"({"prompt": "Hi", "messages": [], "chosen": [)",
                     R"({"content": "Hi", "role": "user"})", ", ", before, ", ", good,
                     R"(], "rejected": [)", user, ", ", before, ", ", bad, "]}")}) {
    const auto rows = Encode(line, 127);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(Spelled(*rows, 1), std::vector<std::string>{answers});
  }
}

// Rows hold whole pairs, and the number of pairs is that of the global batch on every rank.
TEST_F(PairsTest, BatchesHoldWholePairs) {
  std::string lines;
  for (int i = 0; i < 9; ++i) {
    absl::StrAppend(&lines, R"({"prompt": "Say )", i, R"(:", "chosen": " )", i,
                    R"( is", "rejected": " )", i, " was", std::string(i % 3 * 6, 'x'), "\"}\n");
  }
  const auto rows = Encode(lines, 47);
  ASSERT_TRUE(rows.ok()) << rows.status();
  const int64_t count = (*rows)->size() / (*rows)->row_length();
  ASSERT_GT(count, 2);
  const std::vector<std::string> all = Spelled(*rows, count);
  EXPECT_EQ(all.size(), 9u);
  EXPECT_EQ(counted_, 9);
  for (const std::string& pair : all)
    EXPECT_THAT(pair, AllOf(HasSubstr(" is<"), HasSubstr(" was")));
  ASSERT_EQ(count % 2, 0) << count;
  std::vector<std::string> halves = Spelled(*rows, count / 2, 2, 0);
  EXPECT_EQ(counted_, 9);
  const std::vector<std::string> second = Spelled(*rows, count / 2, 2, 1);
  halves.insert(halves.end(), second.begin(), second.end());
  EXPECT_EQ(halves, all);
  const auto counts = CountExamples(**rows);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->examples, 9);
}

TEST_F(PairsTest, LongPairsAreCutToFitOrLeftOut) {
  const auto words = [](int count, const char* word) {
    std::string text;
    for (int i = 0; i < count; ++i) absl::StrAppend(&text, " ", word);
    return text;
  };
  const auto line = [](const std::string& chosen, const std::string& rejected) {
    return absl::StrCat(R"({"prompt": "a", "chosen": ")", chosen, R"(", "rejected": ")", rejected,
                        "\"}\n");
  };
  const std::string fits = line(" is", " no");
  const std::string long_one = line(words(40, "is"), words(3, "no"));
  // Row of 20: the prompt and three words and the end are 5 tokens, which leaves 15 for the other.
  auto rows = Encode(fits + long_one, 19);
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::vector<std::string> pairs = Spelled(*rows, 2);
  ASSERT_EQ(pairs.size(), 2u);
  std::string expected;
  for (int i = 0; i < 14; ++i) expected += " is";
  EXPECT_EQ(pairs[1], expected + " |  no no no<|endoftext|>");
  EXPECT_THAT((*rows)->notes()[0], AllOf(HasSubstr("of 2 examples, 1 are longer"),
                                         HasSubstr("--seq_len=46 would hold the longest")));
  // Both are long: each gets a half.
  rows = Encode(line(words(40, "is"), words(30, "no")), 19);
  ASSERT_TRUE(rows.ok()) << rows.status();
  expected.clear();
  for (int i = 0; i < 9; ++i) expected += " is";
  expected += " | ";
  for (int i = 0; i < 9; ++i) expected += " no";
  EXPECT_EQ(Spelled(*rows, 1), std::vector<std::string>{expected});
  rows = Encode(fits + long_one, 19, OnLong::kDrop);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(Spelled(*rows, 1).size(), 1u);
  EXPECT_THAT((*rows)->notes()[0], HasSubstr("they are left out"));
  rows = Encode(fits + long_one, 19, OnLong::kRefuse);
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(rows.status().message()), HasSubstr("c.jsonl line 2"));
}

TEST_F(PairsTest, RefusesRecordsThatAreNoPairs) {
  const std::string user = R"({"role": "user", "content": "Hi"})";
  const std::string other = R"({"role": "user", "content": "Ho"})";
  const std::string reply = R"({"role": "assistant", "content": "yes"})";
  const struct {
    std::string line;
    std::string problem;
  } kCases[] = {
      {R"({"prompt": "a", "chosen": "", "rejected": "b"})", "\"chosen\" has no text"},
      {R"({"chosen": "a b", "rejected": "a"})", "\"rejected\" has no text after the prompt"},
      {R"({"chosen": "same", "rejected": "same"})", "\"chosen\" has no text after the prompt"},
      {R"({"chosen": "yes", "rejected": "no"})", "--data_columns=prompt=COLUMN"},
      {R"({"question": "The?", "chosen": "The a", "rejected": "The b"})",
       "--data_columns=prompt=question"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "b"})", "are the same"},
      {absl::StrCat(R"({"prompt": [)", user, R"(], "chosen": [)", reply, R"(], "rejected": [)",
                    reply, "]}"),
       "are the same"},
      {R"({"prompt": 3, "chosen": "a", "rejected": "b"})", "\"prompt\" is number"},
      {R"({"chosen": ["a"], "rejected": ["b"]})", "chosen: message 1 is not an object"},
      {absl::StrCat(R"({"chosen": [)", user, ", ", reply, R"(], "rejected": "no"})"),
       "\"rejected\" is string, expected a list"},
      {absl::StrCat(R"({"chosen": [)", user, ", ", reply, R"(], "rejected": [)", other, ", ", reply,
                    "]}"),
       "begin with different messages"},
      {absl::StrCat(R"({"chosen": [)", user, ", ", reply, R"(], "rejected": [)", user, "]}"),
       "\"rejected\" does not end with the assistant's text"},
      {absl::StrCat(R"({"prompt": [)", user, R"(], "chosen": [)", user, ", ", reply,
                    R"(], "rejected": [)", user, ", ", reply, "]}"),
       "\"chosen\" begins with the messages of \"prompt\""},
      {absl::StrCat(R"({"prompt": [)", user, R"(], "chosen": [)", reply, R"(], "rejected": [)",
                    user, ", ", reply, "]}"),
       "\"rejected\" begins with the messages of \"prompt\""},
      {absl::StrCat(R"({"chosen": [)", reply, R"(], "rejected": [)", reply, R"(], "prompt": [)",
                    user, R"(], "weight": 0.5})"),
       "has \"weight\""},
  };
  for (const auto& wrong : kCases) {
    const auto rows = Encode(wrong.line, 63);
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kInvalidArgument) << wrong.line;
    EXPECT_THAT(std::string(rows.status().message()),
                AllOf(HasSubstr("c.jsonl line 1"), HasSubstr(wrong.problem)));
  }
}

// The second answer is that of the nearest judgement before with another prompt.
TEST_F(PairsTest, JudgedAnswersHaveMismatchedOnes) {
  auto rows = Encode(R"({"prompt": "A", "completion": " a", "label": true}
{"prompt": "B", "completion": " b", "label": false}
{"prompt": "B", "completion": " c", "label": true})",
                     31, OnLong::kTruncate, true);
  ASSERT_TRUE(rows.ok()) << rows.status();
  const std::string end = "<|endoftext|>";
  EXPECT_EQ(Spelled(*rows, 1), (std::vector<std::string>{absl::StrCat(" a", end, " |  c", end),
                                                         absl::StrCat(" b", end, " |  a", end),
                                                         absl::StrCat(" c", end, " |  a", end)}));
  EXPECT_EQ(labels_, (std::vector<int32_t>{1, 0, 1}));
  EXPECT_EQ(counted_, 3);
  const auto counts = CountExamples(**rows);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->examples, 3);
  EXPECT_EQ(counts->desirable, 2);
}

// Beside each other, so that a held-out part has both kinds.
TEST_F(PairsTest, PairsAreTwoJudgements) {
  auto rows = Encode(R"({"prompt": "A", "chosen": " a", "rejected": " x"}
{"prompt": "B", "chosen": " b", "rejected": " y"})",
                     31, OnLong::kTruncate, true);
  ASSERT_TRUE(rows.ok()) << rows.status();
  const std::string end = "<|endoftext|>";
  std::vector<std::string> expected;
  for (const auto& [answer, other] : std::vector<std::pair<std::string, std::string>>{
           {"a", "y"}, {"x", "y"}, {"b", "x"}, {"y", "x"}}) {
    expected.push_back(absl::StrCat(" ", answer, end, " |  ", other, end));
  }
  EXPECT_EQ(Spelled(*rows, (*rows)->size() / 32), expected);
  EXPECT_EQ(labels_, (std::vector<int32_t>{1, 0, 1, 0}));
}

TEST_F(PairsTest, JudgedMessagesKeepTheirPrompts) {
  const auto line = [](const char* prompt, const char* answer, const char* label) {
    return absl::StrCat(R"({"prompt": [{"role": "user", "content": ")", prompt,
                        R"("}], "completion": [{"role": "assistant", "content": ")", answer,
                        R"("}], "label": )", label, "}\n");
  };
  const auto rows =
      Encode(line("Hi", "yes", "false") + line("Ho", "no", "true"), 63, OnLong::kTruncate, true);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(
      Spelled(*rows, (*rows)->size() / 64),
      (std::vector<std::string>{"yes<|im_end|> | no<|im_end|>", "no<|im_end|> | yes<|im_end|>"}));
  EXPECT_EQ(labels_, (std::vector<int32_t>{0, 1}));
}

TEST_F(PairsTest, RefusesRecordsThatAreNoJudgements) {
  const std::string good = R"({"prompt": "a", "completion": " b", "label": true})";
  for (const auto& [lines, problem] : std::vector<std::pair<std::string, std::string>>{
           {R"({"prompt": "a", "completion": " b"})", "has no \"label\""},
           {R"({"prompt": "a", "completion": " b", "label": 1})", "\"label\" is number"},
           {R"({"prompt": "a", "completion": " b", "label": "true"})", "\"label\" is string"},
           {R"({"prompt": "a", "completion": " b", "label": null})", "\"label\" is null"},
           {R"({"prompt": "a", "completion": "", "label": true})", "has no text"},
           {good, "expected at least two prompts"},
           {good + "\n" + good, "expected at least two prompts"},
           {R"({"messages": [], "label": true})", "learns from judged answers"}}) {
    const auto rows = Encode(lines, 63, OnLong::kTruncate, true);
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kInvalidArgument) << lines;
    EXPECT_THAT(std::string(rows.status().message()),
                AllOf(HasSubstr("c.jsonl"), HasSubstr(problem)));
  }
}

// Without --objective=kto, a completion that is judged undesirable would be learned.
TEST_F(PairsTest, UndesirableCompletionsAreNotLearned) {
  const auto open = [this](const char* label) {
    return Open(absl::StrCat(R"({"prompt": "a", "completion": " b", "label": )", label, "}"), false)
        .status();
  };
  EXPECT_TRUE(open("true").ok()) << open("true");
  EXPECT_THAT(std::string(open("false").message()),
              AllOf(HasSubstr("o.jsonl line 1"), HasSubstr("--objective=kto")));
}

TEST_F(PairsTest, PairsAndOtherRecordsAreKeptApart) {
  const std::string pair = R"({"prompt": "a", "chosen": " b", "rejected": " c"})";
  EXPECT_TRUE(Open(pair, true).ok());
  EXPECT_THAT(std::string(Open(pair, false).status().message()),
              AllOf(HasSubstr("o.jsonl"), HasSubstr("--objective=dpo"),
                    HasSubstr("--data_columns=completion=chosen")));
  EXPECT_THAT(std::string(Open(R"({"prompt": "a", "completion": " b"})", true).status().message()),
              AllOf(HasSubstr("holds prompt/completion records"), HasSubstr("\"rejected\""),
                    HasSubstr("\"label\", they are judged answers")));
  EXPECT_THAT(std::string(Open(R"({"text": "a"})", true).status().message()),
              AllOf(HasSubstr("holds text"), Not(HasSubstr("kto"))));
  EXPECT_THAT(std::string(Open(pair + "\n" + R"({"text": "a"})", true).status().message()),
              AllOf(HasSubstr("o.jsonl line 2"), HasSubstr("expected preference")));
}

}  // namespace
}  // namespace zeroth
