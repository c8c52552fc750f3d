// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/records.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/documents.h"

namespace zeroth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Reads the records of a file with this content, whose kind its content tells. An error's message
// is the last element.
std::vector<std::string> ReadRecords(const std::string& content,
                                     const std::string& name = "a.json") {
  const TemporaryDirectory dir;
  const auto files = FindDataFiles(dir.Write(name, content));
  if (!files.ok()) return {std::string(files.status().message())};
  auto reader = DocumentReader::OpenRecords((*files)[0], nullptr);
  if (!reader.ok()) return {std::string(reader.status().message())};
  std::vector<std::string> found;
  for (JsonRecord record;;) {
    const auto more = reader->NextRecord(&record);
    if (!more.ok()) {
      found.emplace_back(more.status().message());
      return found;
    }
    if (!*more) return found;
    found.push_back(record.json.dump());
  }
}

TEST(RecordsTest, OfAnArrayAreReadOneByOne) {
  EXPECT_THAT(ReadRecords(R"([{"a": 1}, {"b": "]}\"[{\\"}, {"c": [{}, []]}])"),
              ElementsAre(R"({"a":1})", R"({"b":"]}\"[{\\"})", R"({"c":[{},[]]})"));
  EXPECT_THAT(ReadRecords("\xef\xbb\xbf\n[\n  {\n \"a\": 1\n},\r\n\t{\"a\": 2}\n]\n\n"),
              ElementsAre(R"({"a":1})", R"({"a":2})"));
  // Records that are longer than what is read at a time.
  const std::string large(3'000'000, 'x');
  const std::vector<std::string> found =
      ReadRecords(absl::StrCat("[{\"a\": \"", large, "\"},{\"a\": \"", large, "\"}]"));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1], absl::StrCat("{\"a\":\"", large, "\"}"));
}

TEST(RecordsTest, MalformedArraysNameTheRecord) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[{\"a\": 1}", "a.json: expected a comma or ] behind record 1, found the end of the file"},
      {"[{\"a\": 1} {\"a\": 2}]", "a.json: expected a comma or ] behind record 1, found \"{"},
      {"[{\"a\": 1}]\n[{\"a\": 2}]", "a.json: expected nothing behind ], found \"[{"},
      {"[{\"a\": 1}, ]", "expected a record behind the comma after record 1, found \"]\""},
      {"[{\"a\": 1}, 7]", "record 2: expected an object, found \"7]\""},
      {"[{\"a\": 1}, [{\"a\": 2}]]", "record 2: expected an object, found \"[{"},
      {"[{\"a\": 1}, \"b\"]", "record 2: expected an object, found \"\\\"b\\\"]\""},
      {"[{\"a\": 1}, null]", "record 2: expected an object, found \"null]\""},
      {"[{\"a\": 1},", "record 2: expected an object, found the end of the file"},
      {"[{\"a\": 1}, {\"a\": ]", "a.json record 2: bad JSON"},
      {"[{\"a\": 1}, {\"a\": 1, \"a\": 2}]", "a.json record 2: "},
      {"[{\"a\": 1}, {\"a\": \"", "a.json record 2: bad JSON"}};
  for (const auto& [content, message] : cases) {
    const std::vector<std::string> found = ReadRecords(content);
    ASSERT_EQ(found.size(), 2u) << content;
    EXPECT_THAT(found[1], HasSubstr(message)) << content;
  }
}

// The end of a long array is only seen when it is read.
TEST(RecordsTest, NothingMayFollowAnArray) {
  std::string content = "[";
  for (int i = 1000; i < 2000; ++i) absl::StrAppend(&content, "{\"a\": ", i, "}, ");
  const std::vector<std::string> found = ReadRecords(content + "{}] more");
  ASSERT_EQ(found.size(), 1002u);
  EXPECT_THAT(found.back(), HasSubstr("a.json: expected nothing behind ], found \"more\""));
  EXPECT_THAT(ReadRecords(content + "{}]" + std::string(1, '\0')).back(),
              HasSubstr("a.json: expected nothing behind ], found \"\\x00\""));
}

TEST(RecordsTest, KindsAreKnownByTheirKeys) {
  const auto kind = [](const std::string& text) {
    const auto found = KindOfRecord({nlohmann::ordered_json::parse(text), "x line 1"});
    return found.ok() ? std::string(NameOf(*found)) : std::string(found.status().message());
  };
  EXPECT_EQ(kind(R"({"text": "a", "id": 1})"), "text");
  EXPECT_EQ(kind(R"({"messages": [], "id": 1})"), "messages");
  EXPECT_EQ(kind(R"({"conversations": []})"), "ShareGPT");
  EXPECT_EQ(kind(R"({"instruction": "a", "output": "b"})"), "Alpaca");
  EXPECT_EQ(kind(R"({"instruction": "a", "input": "", "output": "b", "text": "c"})"), "Alpaca");
  EXPECT_EQ(kind(R"({"prompt": "a", "completion": "b"})"), "prompt/completion");
  EXPECT_EQ(kind(R"({"prompt": [], "completion": []})"), "prompt/completion of messages");
  EXPECT_EQ(kind(R"({"prompt": "a", "chosen": "b", "rejected": "c"})"), "preference");
  EXPECT_EQ(kind(R"({"chosen": [], "rejected": []})"), "preference of messages");
  // `prefers_pairs` decides.
  const std::string both = R"({"messages": [], "chosen": "b", "rejected": "c"})";
  EXPECT_EQ(kind(both), "messages");
  EXPECT_EQ(*KindOfRecord({nlohmann::ordered_json::parse(both), "x"}, true), RecordKind::kPair);
  const std::vector<std::string> others = {R"({})",
                                           R"({"question": "a", "answer": "b"})",
                                           R"({"instruction": "a"})",
                                           R"({"prompt": "a", "chosen": "b"})",
                                           R"({"completion": "a"})",
                                           R"({"output": "a"})",
                                           R"({"Text": "a"})",
                                           R"({"data": [{"text": "a"}]})",
                                           R"(["a"])",
                                           R"("a")",
                                           R"(7)",
                                           R"(null)"};
  for (const std::string& other : others) {
    EXPECT_THAT(kind(other),
                AllOf(HasSubstr("x line 1: expected one of {\"text\": \"...\"}, {\"messages\""),
                      HasSubstr("found " + nlohmann::ordered_json::parse(other).dump())));
  }
  const std::string large = kind("{\"a\": \"" + std::string(100'000, 'a') + "\"}");
  EXPECT_LT(large.size(), 800u);
  EXPECT_EQ(CheckKind({nlohmann::ordered_json::parse(R"({"text": "a"})"), "x line 2"},
                      RecordKind::kAlpaca)
                .message(),
            "x line 2: is a record of the kind text, expected Alpaca, the kind of the file's first "
            "record: "
            "{\"text\":\"a\"}");
}

TEST(RecordsTest, ColumnsAreRenamed) {
  auto names = ColumnNames::Parse("prompt=question,completion=prompt,text=absent");
  ASSERT_TRUE(names.ok()) << names.status();
  nlohmann::ordered_json record = {
      {"question", "q"}, {"prompt", "p"}, {"completion", "old"}, {"id", 1}};
  names->Apply(record);
  EXPECT_EQ(record, (nlohmann::ordered_json{{"completion", "p"}, {"id", 1}, {"prompt", "q"}}));
  EXPECT_EQ(names->CheckFound("x.jsonl").message(),
            "x.jsonl: --data_columns=text=absent: no record has \"absent\"; the first has "
            "\"question\", \"prompt\", \"completion\", \"id\"");
  EXPECT_TRUE(ColumnNames::Parse("").ok());
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"prompt", "\"prompt\", expected NAME=COLUMN"},
           {"prompt=", "expected NAME=COLUMN"},
           {"=a", "expected NAME=COLUMN"},
           {"prompt=a,", "expected NAME=COLUMN"},
           {"question=prompt",
            "no record has the name \"question\", expected one of text, messages"},
           {"prompt=a,prompt=b", "repeats a name or a column"},
           {"prompt=a,completion=a", "repeats a name or a column"}}) {
    EXPECT_THAT(ColumnNames::Parse(text).status().message(), HasSubstr(message)) << text;
  }
}

}  // namespace
}  // namespace zeroth
