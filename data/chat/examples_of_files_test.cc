// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// tests/testdata/parquet/gen.py wrote the same records as parquet, over several row groups, and as
// JSON lines, and tests/testdata/compressed/gen.py compressed some of the lines.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/data/chat/conversations.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSeq = 150;

struct Rows {
  std::vector<int32_t> ids;
  std::vector<uint8_t> marks;
  ExampleCounts counts;
};

class ExamplesOfFilesTest : public testing::Test {
 protected:
  ExamplesOfFilesTest()
      : tokenizer_(*OpenTokenizer("tests/testdata/tokenizers/qwen2")),
        chat_(*ChatTemplate::Named("chatml", *tokenizer_)) {}

  absl::StatusOr<Rows> Encode(const DataFile& file, bool has_template, bool loss_on_all) {
    ConversationOptions options;
    options.seq_len = kSeq;
    options.loss_on_all = loss_on_all;
    const auto source =
        EncodeConversations({file}, has_template ? &chat_ : nullptr, *tokenizer_, options);
    if (!source.ok()) return source.status();
    Rows rows;
    rows.ids.resize(static_cast<size_t>((*source)->size()));
    rows.marks.resize(rows.ids.size());
    EXPECT_TRUE((*source)->Read(0, absl::MakeSpan(rows.ids)).ok());
    EXPECT_TRUE((*source)->ReadMarks(0, absl::MakeSpan(rows.marks)).ok());
    rows.counts = *CountExamples(**source);
    return rows;
  }

  static DataFile Parquet(const std::string& name) {
    return {absl::StrCat("tests/testdata/parquet/", name, ".parquet"), DataFileKind::kParquet};
  }
  static DataFile Lines(const std::string& name) {
    return {absl::StrCat("tests/testdata/parquet/", name, ".jsonl"), DataFileKind::kJsonLines};
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  ChatTemplate chat_;
};

TEST_F(ExamplesOfFilesTest, OfParquetHaveTheTokensAndMarksOfJsonLines) {
  struct Case {
    std::string name;
    bool has_template;
    int64_t examples;
  };
  for (const Case& each : {Case{"twin_messages", true, 12}, Case{"twin_conversations", true, 9},
                           Case{"twin_alpaca", true, 70}, Case{"twin_alpaca", false, 70},
                           Case{"twin_prompts", false, 9}, Case{"twin_prompt_messages", true, 6}}) {
    for (const bool loss_on_all : {false, true}) {
      const std::string trace = absl::StrCat(each.name, each.has_template, loss_on_all);
      const auto parquet = Encode(Parquet(each.name), each.has_template, loss_on_all);
      if (absl::IsUnimplemented(parquet.status())) GTEST_SKIP() << "built without Arrow";
      ASSERT_TRUE(parquet.ok()) << trace << " " << parquet.status();
      const auto lines = Encode(Lines(each.name), each.has_template, loss_on_all);
      ASSERT_TRUE(lines.ok()) << trace << " " << lines.status();
      EXPECT_EQ(parquet->ids, lines->ids) << trace;
      EXPECT_EQ(parquet->marks, lines->marks) << trace;
      EXPECT_EQ(parquet->counts.examples, each.examples) << trace;
      EXPECT_GT(parquet->counts.learned, each.examples) << trace;
    }
  }
}

TEST_F(ExamplesOfFilesTest, OfCompressedFilesHaveTheTokensAndMarksOfJsonLines) {
  const auto expected = Encode(Lines("twin_messages"), true, false);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const std::string ending : {"gz", "zst"}) {
    const auto files = FindDataFiles("tests/testdata/compressed/messages.jsonl." + ending);
    if (absl::StrContains(files.status().message(), "built without Arrow"))
      GTEST_SKIP() << "built without Arrow";
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_EQ(*KindOfFirstRecord((*files)[0]), RecordKind::kMessages);
    const auto found = Encode((*files)[0], true, false);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->ids, expected->ids);
    EXPECT_EQ(found->marks, expected->marks);
  }
}

// A value of a type that JSON does not have is never taken for text.
TEST_F(ExamplesOfFilesTest, OfTypesThatJsonLacksAreRefused) {
  const absl::Status status = Encode(Parquet("map"), true, false).status();
  if (absl::IsUnimplemented(status)) GTEST_SKIP() << "built without Arrow";
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("map.parquet row 1: \"messages\" is object, expected a list"));
}

}  // namespace
}  // namespace zeroth
