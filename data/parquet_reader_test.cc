// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The files are pyarrow's: tests/testdata/parquet/gen.py.

#include "zeroth/data/parquet_reader.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/open_data.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string PathOf(const std::string& name) {
  return absl::StrCat("tests/testdata/parquet/", name, ".parquet");
}

class ParquetReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (absl::IsUnimplemented(ParquetReader::Open(PathOf("text")).status()))
      GTEST_SKIP() << "built without Arrow";
  }

  // The rows as JSON, from row `from` on, and the error that ends them.
  std::vector<std::string> Rows(const std::string& path, int64_t from = 0) {
    auto reader = ParquetReader::Open(path);
    EXPECT_TRUE(reader.ok()) << reader.status();
    std::vector<std::string> rows;
    absl::Status status = reader->Seek(from);
    for (nlohmann::ordered_json row; status.ok();) {
      const absl::StatusOr<bool> more = reader->Next(&row);
      status = more.status();
      if (!more.ok() || !*more) break;
      rows.push_back(row.dump());
    }
    if (!status.ok()) rows.emplace_back(status.message());
    return rows;
  }

  // The text of the tokens of ByteTokenizer, with | for an end-of-text token.
  std::string TextOf(const std::string& spec, const std::string& columns = "") {
    const ByteTokenizer tokenizer;
    DataOptions options;
    options.tokenizer = &tokenizer;
    options.vocab_size = 257;
    options.seq_len = 240;
    options.chat_template = "auto";
    options.columns = columns;
    const auto source = OpenData(spec, options);
    if (!source.ok()) return std::string(source.status().message());
    description_ = (*source)->description();
    std::vector<int32_t> ids(static_cast<size_t>((*source)->size()));
    EXPECT_TRUE((*source)->Read(0, absl::MakeSpan(ids)).ok());
    std::string text;
    for (const int32_t id : ids) text += id == 256 ? '|' : static_cast<char>(id);
    return text;
  }

  std::string description_;
  TemporaryDirectory dir_;
};

TEST_F(ParquetReaderTest, ReadsRowsOfSeveralGroups) {
  const std::vector<std::string> expected = {
      R"({"text":"one","id":1,"score":0.5})", R"({"text":"café 😀","id":2,"score":1.0})",
      R"({"text":"","id":null,"score":null})", R"({"text":"four","id":4,"score":2.0})"};
  for (size_t from = 0; from <= expected.size(); ++from) {
    const std::vector<std::string> rest(expected.begin() + static_cast<ptrdiff_t>(from),
                                        expected.end());
    EXPECT_EQ(Rows(PathOf("text"), static_cast<int64_t>(from)), rest) << from;
  }
  EXPECT_EQ(ParquetReader::Open(PathOf("text"))->rows(), 4);
}

TEST_F(ParquetReaderTest, ReadsNestedAndOtherTypes) {
  EXPECT_EQ(Rows(PathOf("messages"))[0],
            R"({"messages":[{"role":"user","content":"Two and two?","name":null},)"
            R"({"role":"assistant","content":"Four.","name":null}]})");
  // A dictionary, a large string and a timestamp.
  EXPECT_EQ(Rows(PathOf("columns"))[1],
            R"({"question":"b","answer":"y","date":{"timestamp[ms]":"1970-01-01 00:00:01.000"}})");
}

TEST_F(ParquetReaderTest, ValuesThatJsonLacksAreNotText) {
  EXPECT_THAT(TextOf(PathOf("columns"), "text=date"),
              HasSubstr("columns.parquet row 1: \"text\" is object, expected a string"));
  EXPECT_THAT(Rows(PathOf("map"))[0], StartsWith(R"({"messages":{"map<string, string)"));
}

TEST_F(ParquetReaderTest, TextIsThatOfTheSameJsonLines) {
  const std::string text = TextOf(PathOf("twin_text"));
  EXPECT_EQ(text, TextOf("tests/testdata/parquet/twin_text.jsonl"));
  EXPECT_THAT(text, HasSubstr("Document 6 é|Document 0 é|"));
}

TEST_F(ParquetReaderTest, TheTrainerReadsEachKindOfRecord) {
  EXPECT_EQ(TextOf(PathOf("text")), "one|café 😀||four|");
  EXPECT_THAT(description_, HasSubstr("(text)"));
  EXPECT_THAT(TextOf(PathOf("prompts")), HasSubstr("2+2=4|3+3=6|"));
  EXPECT_THAT(description_, HasSubstr("(prompt/completion)"));
  EXPECT_THAT(TextOf(PathOf("columns"), "prompt=question,completion=answer"),
              HasSubstr("ax|by|az|"));
  EXPECT_THAT(TextOf(PathOf("columns"), "text=answer"), "x|y|z|");
  // The byte tokenizer writes no conversations. Alpaca records do not need one; the other kinds do.
  EXPECT_THAT(TextOf(PathOf("alpaca")), HasSubstr("Below is an instruction"));
  EXPECT_THAT(description_, HasSubstr("(Alpaca)"));
  for (const char* const name : {"messages", "conversations"}) {
    EXPECT_THAT(TextOf(PathOf(name)), HasSubstr("has no special tokens")) << name;
  }
}

// The hub's layout of a data set: shards in data/, a description beside it.
TEST_F(ParquetReaderTest, ReadsADirectoryOfShards) {
  const std::string bytes = ReadFile(PathOf("text"), 1 << 20).value();
  std::filesystem::create_directory(dir_.File("data"));
  for (const char* const name :
       {"data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet", "README.md",
        ".gitattributes"})
    dir_.Write(name, std::string(name).ends_with("parquet") ? bytes : "about");
  const std::string twice = "one|café 😀||four|one|café 😀||four|";
  EXPECT_EQ(TextOf(dir_.path()), twice);
  EXPECT_EQ(TextOf(dir_.File("data/train-*.parquet")), twice);
  std::vector<std::string> left_out;
  ASSERT_TRUE(FindDataFiles(dir_.path(), &left_out).ok());
  EXPECT_THAT(left_out, ElementsAre(dir_.File("README.md")));
}

TEST_F(ParquetReaderTest, BytesAreTextOnlyIfTheyAreUtf8) {
  EXPECT_THAT(TextOf(PathOf("bytes")),
              HasSubstr("bytes.parquet row 2: \"text\" is binary, expected a string"));
}

TEST_F(ParquetReaderTest, DamagedFilesAreRefused) {
  const std::string good = ReadFile(PathOf("text"), 1 << 20).value();
  const std::string path = dir_.File("a.parquet");
  for (const size_t size : {size_t{4}, size_t{100}, good.size() - 1}) {
    dir_.Write("a.parquet", good.substr(0, size));
    const absl::Status status = ParquetReader::Open(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr(path + ": this parquet file cannot be read: "));
    EXPECT_LT(status.message().size(), 400u);
  }
  EXPECT_EQ(ParquetReader::Open(dir_.File("absent")).status().code(), absl::StatusCode::kNotFound);
  // The footer: its magic, its length, and that of an encrypted file.
  std::string bad = good;
  for (const auto& [end, expected] : std::vector<std::pair<std::string, std::string>>{
           {good.substr(good.size() - 8, 4) + "PAR2", "magic bytes not found in footer"},
           {"\xff\xff\xff\x7fPAR1", "footer"},
           {std::string("\0\0\0\0PAR1", 8), "thrift"},
           {good.substr(good.size() - 8, 4) + "PARE", "this parquet file cannot be read"}}) {
    bad.replace(bad.size() - 8, 8, end);
    dir_.Write("a.parquet", bad);
    const std::string message(ParquetReader::Open(path).status().message());
    EXPECT_THAT(message, HasSubstr(path + ": this parquet file cannot be read: "));
    EXPECT_THAT(message, HasSubstr(expected));
    EXPECT_LT(message.size(), 400u);
  }
  // A page's header.
  bad = good;
  bad.replace(4, 8, 8, '\xff');
  dir_.Write("a.parquet", bad);
  EXPECT_THAT(Rows(path).back(), HasSubstr(path + ": row 1 of this parquet file cannot be read: "));
  // Whatever is damaged ends in rows or in an error.
  for (size_t i = 0; i < good.size(); i += 7) {
    bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x55);
    dir_.Write("a.parquet", bad);
    auto reader = ParquetReader::Open(path);
    if (!reader.ok()) continue;
    nlohmann::ordered_json row;
    for (int rows = 0; rows < 10; ++rows) {
      const absl::StatusOr<bool> more = reader->Next(&row);
      if (!more.ok() || !*more) break;
    }
  }
}

}  // namespace
}  // namespace zeroth
