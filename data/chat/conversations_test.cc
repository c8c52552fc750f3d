// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/conversations.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/ignored_target.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Line(absl::string_view user, absl::string_view assistant) {
  return absl::StrCat(R"({"messages": [{"role": "user", "content": ")", user,
                      R"("}, {"role": "assistant", "content": ")", assistant, "\"}]}\n");
}

// A conversation whose reply has these members.
std::string Talk(absl::string_view reply) {
  return absl::StrCat(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", )",
                      reply, "}]}");
}

class ConversationsTest : public testing::Test {
 protected:
  ConversationsTest()
      : tokenizer_(*OpenTokenizer("tests/testdata/tokenizers/qwen2")),
        chat_(*ChatTemplate::Named("chatml", *tokenizer_)) {}

  absl::StatusOr<std::shared_ptr<const TokenSource>> Encode(const std::string& lines,
                                                            const ConversationOptions& options) {
    return EncodeConversations({{dir_.Write("c.jsonl", lines), DataFileKind::kJsonLines}}, &chat_,
                               *tokenizer_, options);
  }

  const TemporaryDirectory dir_;
  std::unique_ptr<Tokenizer> tokenizer_;
  ChatTemplate chat_;
};

TEST_F(ConversationsTest, RowsHoldWholeConversationsAndPaddingIsNotATarget) {
  constexpr int64_t kSeq = 63;
  std::string lines;
  std::vector<ChatTemplate::Conversation> talks;
  for (int i = 0; i < 40; ++i) {
    const std::string question(static_cast<size_t>(1 + 5 * (i % 7)), 'x');
    const std::string answer = absl::StrCat("answer ", i);
    absl::StrAppend(&lines, Line(question, answer));
    talks.push_back(*chat_.Render({{"user", question}, {"assistant", answer}}));
  }
  for (const bool all : {false, true}) {
    const auto source = Encode(lines, {kSeq, all});
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_TRUE((*source)->notes().empty());
    ASSERT_EQ((*source)->row_length(), kSeq + 1);
    ExampleCounts expected;
    for (const ChatTemplate::Conversation& talk : talks) {
      ++expected.examples;
      expected.tokens += static_cast<int64_t>(talk.ids.size());
      expected.learned +=
          all ? static_cast<int64_t>(talk.ids.size()) - 1
              : std::count(talk.by_assistant.begin(), talk.by_assistant.end(), true);
    }
    const auto found = CountExamples(**source);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->examples, expected.examples);
    EXPECT_EQ(found->tokens, expected.tokens);
    EXPECT_EQ(found->learned, expected.learned);
    EXPECT_LT(found->largest, tokenizer_->vocab_size());
    EXPECT_GE(found->largest, chat_.end_of_turn());
    std::vector<bool> seen(talks.size());
    for (int64_t begin = 0; begin < (*source)->size(); begin += kSeq + 1) {
      std::vector<int32_t> ids(kSeq + 1);
      std::vector<uint8_t> marks(kSeq + 1);
      ASSERT_TRUE((*source)->Read(begin, absl::MakeSpan(ids)).ok());
      ASSERT_TRUE((*source)->ReadMarks(begin, absl::MakeSpan(marks)).ok());
      size_t at = 0;
      while (at < ids.size() && ids[at] != tokenizer_->end_of_text()) {
        // The answers differ, so they identify the conversation.
        const auto talk = std::find_if(talks.begin(), talks.end(), [&](const auto& candidate) {
          return candidate.ids.size() <= ids.size() - at &&
                 std::equal(candidate.ids.begin(), candidate.ids.end(), ids.begin() + at);
        });
        ASSERT_NE(talk, talks.end()) << "row at " << begin << ", token " << at;
        seen[static_cast<size_t>(talk - talks.begin())] = true;
        for (size_t i = 0; i < talk->ids.size(); ++i) {
          const bool counts = all ? i > 0 : talk->by_assistant[i];
          EXPECT_EQ(marks[at + i], (counts ? 0 : kNoTarget) | (i == 0 ? kBeginsDocument : 0))
              << at << " + " << i;
        }
        at += talk->ids.size();
      }
      for (size_t i = at; i < ids.size(); ++i) {
        EXPECT_EQ(ids[i], tokenizer_->end_of_text());
        EXPECT_EQ(marks[i], kNoTarget | (i == at ? kBeginsDocument : 0));
      }
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 40);
  }
}

// The loader masks targets, and counts the others over the whole global batch, with the same result
// however that is split.
TEST_F(ConversationsTest, TheLoaderIgnoresTargetsAndCountsTheRest) {
  std::string lines;
  for (int i = 0; i < 30; ++i) {
    absl::StrAppend(&lines, Line("question", std::string(static_cast<size_t>(1 + 3 * i), 'y')));
  }
  const auto source = Encode(lines, {80, false});
  ASSERT_TRUE(source.ok()) << source.status();
  for (int64_t step = 0; step < 6; ++step) {
    std::optional<std::vector<int32_t>> whole;
    for (const int64_t world : {1, 2, 4}) {
      std::vector<int32_t> targets;
      std::vector<int64_t> counted;
      for (int64_t rank = 0; rank < world; ++rank) {
        LoaderOptions options;
        options.batch_size = 4 / world;
        options.seq_len = 80;
        options.world_size = world;
        options.rank = rank;
        options.seed = 5;
        options.documents = true;
        const auto loader = DataLoader::Create(*source, options);
        ASSERT_TRUE(loader.ok()) << loader.status();
        const auto batch = loader->Load(step);
        ASSERT_TRUE(batch.ok()) << batch.status();
        targets.insert(targets.end(), batch->targets.begin(), batch->targets.end());
        // In ChatML, a conversation begins with a turn of the user, and padding with padding.
        const std::vector<int32_t> begin = *chat_.RenderPrompt({{"user", "question"}});
        for (size_t i = 0; i < batch->starts.size(); ++i) {
          const size_t within = i % 80;
          const auto start = static_cast<size_t>(batch->starts[i]);
          ASSERT_LE(start, within);
          const size_t previous = static_cast<size_t>(within == 0 ? 0 : batch->starts[i - 1]);
          ASSERT_TRUE(start == within || start == previous);
          const bool user =
              within + 2 < 80 && std::equal(begin.begin(), begin.begin() + 2,
                                            batch->inputs.begin() + static_cast<std::ptrdiff_t>(i));
          const bool pads = batch->inputs[i] == tokenizer_->end_of_text() &&
                            (within == 0 || batch->inputs[i - 1] != tokenizer_->end_of_text());
          EXPECT_EQ(start == within, within == 0 || user || pads) << i;
        }
        counted.push_back(batch->counted.value_or(-1));
      }
      const auto count = std::count_if(targets.begin(), targets.end(),
                                       [](int32_t target) { return target != kIgnoredTarget; });
      EXPECT_GT(count, 0);
      EXPECT_EQ(counted, std::vector<int64_t>(static_cast<size_t>(world), count));
      if (!whole.has_value()) whole = targets;
      EXPECT_EQ(targets, *whole) << "world " << world;
    }
  }
}

TEST_F(ConversationsTest, LongConversationsAreCutAndSaid) {
  const std::string long_answer(400, 'z');
  const std::string long_question = "q q q q q q q q q q q q q q q q q q q q q q q q q q q q q q";
  const auto source =
      Encode(absl::StrCat(Line("short", "one"), Line("a", long_answer), Line(long_question, "x")),
             {31, false});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->notes().size(), 1u);
  EXPECT_THAT((*source)->notes()[0], HasSubstr("of 3 examples, 2 are longer"));
  EXPECT_THAT((*source)->notes()[0], HasSubstr("c.jsonl line 2: 1 are cut there, and 1 left out"));
  EXPECT_EQ((*source)->size(), 2 * 32);
  const auto none = Encode(Line(long_question, "x"), {31, false});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(none.status().message(), HasSubstr("nothing is left to learn: of 1 examples, 1"));
  EXPECT_THAT(none.status().message(), HasSubstr("they are left out, since the assistant says"));
  const auto all_cut =
      Encode(absl::StrCat(Line("short", "one"), Line("a", long_answer)), {31, false});
  ASSERT_TRUE(all_cut.ok()) << all_cut.status();
  EXPECT_THAT((*all_cut)->notes(), testing::ElementsAre(HasSubstr("they are cut there; ")));
}

// Every token of the answer is learned once, after the token before it.
TEST_F(ConversationsTest, LongConversationsCanBeSplit) {
  std::string answer;
  for (int i = 0; i < 60; ++i) absl::StrAppend(&answer, i, " ");
  const auto learned = [&](int64_t seq_len, OnLong on_long) {
    std::vector<std::pair<int32_t, int32_t>> pairs;
    const auto source = Encode(Line("a", answer), {seq_len, false, {}, on_long});
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return pairs;
    std::vector<int32_t> ids(static_cast<size_t>((*source)->size()));
    std::vector<uint8_t> marks(ids.size());
    EXPECT_EQ((*source)->Read(0, absl::MakeSpan(ids)), absl::OkStatus());
    EXPECT_EQ((*source)->ReadMarks(0, absl::MakeSpan(marks)), absl::OkStatus());
    for (size_t i = 0; i < ids.size(); ++i) {
      if ((marks[i] & kNoTarget) != 0) continue;
      EXPECT_NE(i % static_cast<size_t>(seq_len + 1), 0u) << "a target without a token before it";
      pairs.emplace_back(ids[i - 1], ids[i]);
    }
    return pairs;
  };
  const auto whole = learned(1000, OnLong::kRefuse);
  ASSERT_GT(whole.size(), 100u);
  for (const int64_t seq_len : {1, 2, 7, 31, 64}) {
    EXPECT_EQ(learned(seq_len, OnLong::kSplit), whole) << seq_len;
  }
}

TEST_F(ConversationsTest, LongConversationsCanBeDroppedOrRefused) {
  const std::string lines = absl::StrCat(Line("short", "one"), Line("a", std::string(400, 'z')));
  const auto dropped = Encode(lines, {31, false, {}, OnLong::kDrop});
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_EQ((*dropped)->size(), 32);
  EXPECT_THAT((*dropped)->notes()[0], HasSubstr("c.jsonl line 2: they are left out; --seq_len="));
  const auto refused = Encode(lines, {31, false, {}, OnLong::kRefuse});
  EXPECT_THAT(refused.status().ToString(),
              AllOf(HasSubstr("of 2 examples, 1 are longer than --seq_len=31, the first in"),
                    HasSubstr("c.jsonl line 2; --seq_len="), HasSubstr("--on_long")));
}

TEST_F(ConversationsTest, BadConversationsNameTheirLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"messages": [{"role": "user", "content": "a"}]})", "without text of the assistant"},
      {R"({"messages": []})", "without text of the assistant"},
      {Talk("\"content\": \"\""), "without text of the assistant"},
      {Talk("\"content\": \" \\n\", \"reasoning_content\": \"\""), "without text of the assistant"},
      {Talk("\"content\": \"b\", \"weight\": 0.5"),
       "message 2 has \"weight\": 0.5, expected 0 or false"},
      {Talk("\"content\": \"b\", \"loss\": \"no\""), "has \"loss\": \"no\", expected 0 or false"},
      {Talk("\"content\": \"b\", \"loss\": false, \"trainable\": 1"),
       "message 2 has \"trainable\": true, but another key says the opposite"},
      {Talk("\"content\": \"b\", \"weight\": 0"), "no message of the assistant is learned"},
      {Talk("\"content\": \"b\", \"prefix\": true"), "message 2 has \"prefix\", which is not read"},
      {R"({"messages": [{"role": "user", "content": "a", "weight": 1},
           {"role": "assistant", "content": "b"}]})",
       "message 1 of the user says that it is learned, but --loss_on=assistant decides"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
           "system": "Be kind."})",
       "has \"system\", which is not read; write it as the first message, of the role system, or"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
           "weight": 0})",
       "has \"weight\", which is not read"},
      {R"({"messages": [{"from": "human", "value": "a"}]})",
       "message 1 has \"from\" and \"value\", expected \"role\""},
      {absl::StrCat(R"({"messages": [{"role": ")", std::string(100'000, 'r'),
                    R"(", "content": "a"}]})"),
       "has the role \"rrrr"},
      {absl::StrCat(R"({"messages": [{"role": "user", "content": "a", ")",
                    std::string(100'000, 'k'), R"(": 1}]})"),
       "message 1 has \"kkkk"},
      {R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})",
       "is a record of the kind ShareGPT, expected messages, the kind of the file's "
       "first record: {"},
      {R"({"messages": [{"role": "assistant", "content": "a"}]})", "message 1 is of \"assistant\""},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
           {"role": "user", "content": "c"}]})",
       "the last message is of \"user\""},
      {R"({"messages": [{"role": "user", "content": [1]}]})", "has part 1 of \"content\": 1"},
      {R"({"messages": [{"content": "a"}]})", "\"role\", a string"},
      {R"({"messages": ["a"]})", "message 1 is not an object"},
      {R"({"text": "a"})", "is a record of the kind text, expected messages"},
      {R"({"messages": "a"})", "\"messages\" is string, expected a list"}};
  for (const auto& [text, expected] : cases) {
    std::string line = text;
    line.erase(std::remove(line.begin(), line.end(), '\n'), line.end());
    const auto source = Encode(absl::StrCat(Line("good", "one"), "\n", line, "\n"), {64, false});
    EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(source.status().message(), HasSubstr("c.jsonl line 3: ")) << line;
    EXPECT_THAT(source.status().message(), HasSubstr(expected));
    EXPECT_LT(source.status().message().size(), 1000u);
  }
}

// An Alpaca record has no messages, so the advice begins with those.
TEST_F(ConversationsTest, TheSystemOfAnAlpacaRecordBecomesAMessage) {
  const auto source =
      Encode(R"({"instruction": "a", "input": "", "output": "b", "system": "Be kind."})"
             "\n",
             {64, false});
  EXPECT_THAT(source.status().message(),
              HasSubstr("has \"system\", which is not read; write the record as \"messages\", and "
                        "write it as the first message, of the role system, or leave the key out"));
}

// A reply that is not to be learned is read, but is not a target.
TEST_F(ConversationsTest, MessagesSayWhetherTheyAreLearned) {
  constexpr int64_t kSeq = 63;
  const std::string text =
      R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "bad", $},)"
      R"( {"role": "user", "content": "y"}, {"role": "assistant", "content": "good", "weight": 1}]})";
  const std::vector<ChatMessage> messages = {
      {"user", "x"}, {"assistant", "bad"}, {"user", "y"}, {"assistant", "good"}};
  const std::vector<std::pair<std::string, std::string>> formats = {
      {"chatml", "qwen2"}, {"llama3", "llama3"}, {"mistral", "llama2"}};
  for (const auto& [format, files] : formats) {
    const auto tokenizer = OpenTokenizer("tests/testdata/tokenizers/" + files);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const auto chat = ChatTemplate::Named(format, **tokenizer);
    ASSERT_TRUE(chat.ok()) << chat.status();
    const auto written = chat->Render(messages);
    ASSERT_TRUE(written.ok()) << written.status();
    const auto end = std::find(written->by_assistant.begin(), written->by_assistant.end(), true);
    const auto end_of_bad = static_cast<size_t>(std::find(end, written->by_assistant.end(), false) -
                                                written->by_assistant.begin());
    for (const std::string key :
         {"\"weight\": 0", "\"weight\": 0.0", "\"loss\": false", "\"trainable\": 0",
          "\"loss\": null, \"weight\": 1", "\"id\": \"7\""}) {
      const bool learned = absl::StrContains(key, "null") || absl::StrContains(key, "id");
      for (const bool all : {false, true}) {
        const std::string path =
            dir_.Write("w.jsonl", absl::StrReplaceAll(text, {{"$", key}}) + "\n");
        const auto source = EncodeConversations({{path, DataFileKind::kJsonLines}}, &*chat,
                                                **tokenizer, {kSeq, all});
        ASSERT_TRUE(source.ok()) << source.status();
        std::vector<uint8_t> marks(kSeq + 1);
        ASSERT_TRUE((*source)->ReadMarks(0, absl::MakeSpan(marks)).ok());
        for (size_t i = 1; i < written->ids.size(); ++i) {
          const bool target = written->by_assistant[i] ? learned || i >= end_of_bad : all;
          EXPECT_EQ((marks[i] & kNoTarget) == 0, target) << format << " " << key << " token " << i;
        }
      }
    }
  }
}

TEST_F(ConversationsTest, TheFirstRecordTells) {
  const auto kind = [this](const std::string& lines) {
    return KindOfFirstRecord({dir_.Write("d.jsonl", lines), DataFileKind::kJsonLines});
  };
  EXPECT_EQ(*kind(absl::StrCat("\n", Line("a", "b"))), RecordKind::kMessages);
  EXPECT_EQ(*kind("{\"text\": \"a\"}\n"), RecordKind::kText);
  EXPECT_EQ(*kind("\n"), std::nullopt);
  EXPECT_FALSE(kind("{").ok());
  EXPECT_EQ(*KindOfFirstRecord({dir_.Write("d.txt", Line("a", "b")), DataFileKind::kText}),
            RecordKind::kText);
}

}  // namespace
}  // namespace zeroth
