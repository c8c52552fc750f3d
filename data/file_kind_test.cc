// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/file_kind.h"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kRecord[] = R"({"text": "one", "id": 7})";

FileKind KindOfHead(const std::string& path, const std::string& content) {
  return FileKindOf(path, content.substr(0, kFileHeadBytes));
}

TEST(FileKindTest, LinesOfJsonAreKnownUnderAnyName) {
  const std::string talk =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  for (const std::string& content :
       {absl::StrCat(kRecord, "\n", kRecord, "\n"), std::string(kRecord), talk,
        absl::StrCat("\xef\xbb\xbf", kRecord, "\r\n", kRecord), absl::StrCat("\n\n", talk, "\n"),
        // The first line is longer than the bytes examined.
        absl::StrCat("{\"text\": \"", std::string(20'000, 'x'), "\"}\n", kRecord),
        // Reading fails after the first record, and says where.
        absl::StrCat(kRecord, "\n{broken\n"), absl::StrCat(kRecord, kRecord, "\n"),
        absl::StrCat(kRecord, ", ", kRecord, "\n")}) {
    for (const char* const name : {"a.jsonl", "a.JSONL", "a.json", "a.txt", "a", "a.csv"}) {
      EXPECT_EQ(KindOfHead(name, content).kind, DataFileKind::kJsonLines)
          << name << ": " << content.substr(0, 60);
    }
  }
  // The name decides for text that does not look like JSON.
  for (const char* const name : {"a.jsonl", "a.JSONL", "a.ndjson", "a.NdJson"}) {
    EXPECT_EQ(KindOfHead(name, "no JSON").kind, DataFileKind::kJsonLines) << name;
  }
}

TEST(FileKindTest, ProseAndCodeStayText) {
  for (const std::string content : {"[link](there)\n",
                                    "[1] Smith, J.\n",
                                    "[1, 2]\nare numbers\n",
                                    "[ ] buy milk\n",
                                    "{\\bf TeX} and more\n",
                                    "{\n  int x = 0;\n  return x;\n}\n",
                                    "{}\nis an object\n",
                                    "{\n}\nis C\n",
                                    "{\"a\": 1} is an object\n",
                                    "{{ jinja }}\n",
                                    "{% if a %}\n",
                                    "{\"a\", \"b\"};\n",
                                    "[section]\nkey = 1\n",
                                    "[[Category:Towns]]\n",
                                    "\"quoted\" prose\n",
                                    "Well, it rained.\nSo, we left.\nThen, it ended.\n",
                                    "id\tword\n1\thouse\n",
                                    "a,b\n1,2\n",
                                    "The text, and the rest\nwere read, and closed\n",
                                    "ORCHARDS are green\n",

                                    "caf\xe9 latin-1\n",
                                    "   \n"}) {
    EXPECT_EQ(KindOfHead("a.txt", content).kind, DataFileKind::kText) << content;
  }
  std::string code = "{\n  /* a comment */\n";
  while (code.size() < 3 * kFileHeadBytes) code += "  call(1);\n";
  EXPECT_EQ(KindOfHead("a", code).kind, DataFileKind::kText);
}

TEST(FileKindTest, ArraysOfObjectsAreRecords) {
  std::string large = "[";
  while (large.size() < 3 * kFileHeadBytes) absl::StrAppend(&large, kRecord, ",\n");
  for (const std::string& content : {absl::StrCat("[", kRecord, "]"),
                                     absl::StrCat("\xef\xbb\xbf[\n ", kRecord, "\n]\n"), large}) {
    for (const char* const name : {"a.json", "a.jsonl", "a.txt"}) {
      EXPECT_EQ(KindOfHead(name, content).kind, DataFileKind::kJsonArray) << name << content;
    }
  }
}

// A file that is named .json but is not JSON fails when it is read, and is never taken as text.
TEST(FileKindTest, TheNameJsonMakesItRecords) {
  for (const char* const content : {"{\"a\" 1}", "{\n // why\n \"a\": 1}", "{{ jinja }}"}) {
    EXPECT_EQ(KindOfHead("a.json", content).kind, DataFileKind::kJsonLines) << content;
    EXPECT_EQ(KindOfHead("a.txt", content).kind, DataFileKind::kText) << content;
  }
  for (const char* const content : {"[{\"a\": 1}]\n[{\"a\": 2}]", "[{\"a\": 1} {", "[1] Smith"}) {
    EXPECT_EQ(KindOfHead("a.JSON", content).kind, DataFileKind::kJsonArray) << content;
    EXPECT_EQ(KindOfHead("a.txt", content).kind, DataFileKind::kText) << content;
  }
}

TEST(FileKindTest, WhatIsNotReadIsNamedWithItsFirstBytes) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[1]",
       "is a JSON array whose first element is not an object (it begins with \"[1]\"), expected"},
      {"[\"a\", {\"text\": \"b\"}]", "is a JSON array whose first element is not an object"},
      {"[]", "is a JSON array"},
      {"{\n \"data\": []\n}\n", "is a JSON object of several lines (it begins with \"{\\n"},
      {"{\"a\":\n1}\n{\"a\":\n1}\n", "is a JSON object of several lines"},
      {"prompt,completion\n\"a, b\nc\",d\n", "a table of comma-separated values"},
      {",Text,Id\n0,a,1\n", "a table of comma-separated values"},
      {"id\ttext\n1\thouse\n", "a table of tab-separated values (it begins with \"id\\ttext"},
      {std::string("ARROW1\0\0", 8), "is an Arrow file"},
      {std::string("\xff\xff\xff\xff\x10\0\0\0", 8), "is an Arrow stream"},
      {"\x1f\x8b\x08", "is compressed by gzip (it begins with \"\\x1f\\x8b\\x08\"), expected text"},
      {std::string("\xfd\x37zXZ\0", 6), "is compressed by xz"},
      {"PK\x03\x04", "is a zip archive"},
      {"%PDF-1.7", "is a PDF document"},
      {std::string("\xff\xfe\x61\0", 4), "is text in UTF-16"},
      {std::string("a\0z", 3), "is binary (it begins with \"a\\x00z\"), expected text"},
      {"", "is empty, expected text"}};
  for (const auto& [content, expected] : cases) {
    const FileKind found = KindOfHead("dir/a.txt", content);
    EXPECT_FALSE(found.kind.has_value()) << expected;
    EXPECT_THAT(found.refusal, StartsWith("dir/a.txt: ")) << expected;
    EXPECT_THAT(found.refusal, HasSubstr(expected));
    EXPECT_LT(found.refusal.size(), 500u);
  }
  EXPECT_THAT(KindOfHead("my data.csv", "a").refusal,
              HasSubstr("python3 -c 'import csv, json, sys; f = open(sys.argv[1], newline=\"\"); "
                        "[print(json.dumps(r)) for r in csv.DictReader(f)]' 'my data.csv' > "
                        "'my data.jsonl'"));
  EXPECT_THAT(KindOfHead("a.xz", std::string("\xfd\x37zXZ\0", 6)).refusal,
              HasSubstr("unpack it first: unxz -k a.xz"));
  for (const char* const name : {"a.csv", "a.TSV"}) {
    EXPECT_THAT(KindOfHead(name, "prose").refusal, HasSubstr("if it is prose, name it .txt"))
        << name;
  }
}

TEST(FileKindTest, ParquetIsKnownByItsFirstBytes) {
  EXPECT_EQ(KindOfHead("a", std::string("PAR1\x15\0", 6)).kind, DataFileKind::kParquet);
  EXPECT_EQ(KindOfHead("a.parquet", "PAR1").kind, DataFileKind::kParquet);
  EXPECT_EQ(KindOfHead("a.txt", "PAR1 is text").kind, DataFileKind::kText);
  EXPECT_THAT(KindOfHead("a.parquet", "version https://git-lfs.github.com/spec/v1\n").refusal,
              HasSubstr("Git LFS leaves in place of a file: run git lfs pull"));
}

TEST(FileKindTest, CompressedContentIsKnownAsOtherContentIs) {
  const auto kind = [](const std::string& path, const std::string& head) {
    return CompressedFileKindOf(path, Compression::kGzip, head);
  };
  for (const auto& [path, head, expected] :
       std::vector<std::tuple<std::string, std::string, DataFileKind>>{
           {"a.gz", "prose", DataFileKind::kText},
           {"a.txt.gz", "{\"text\": \"b\"}\n", DataFileKind::kJsonLines},
           {"a.jsonl.gz", "\n", DataFileKind::kJsonLines},
           {"a.NDJSON.GZIP", "\n", DataFileKind::kJsonLines},
           {"a.json.gz", "[{\"text\": \"b\"}]", DataFileKind::kJsonArray}}) {
    EXPECT_EQ(kind(path, head).kind, expected) << path;
    EXPECT_EQ(kind(path, head).compression, Compression::kGzip) << path;
  }
  EXPECT_THAT(
      kind("a b.parquet.gz", std::string("PAR1\0", 5)).refusal,
      HasSubstr("a b.parquet.gz: is compressed by gzip, which only text, JSON lines and JSON "
                "arrays may be; unpack it: gunzip -k 'a b.parquet.gz'"));
  EXPECT_TRUE(kind("a.npy.gz", "\x93NUMPY").holds_data);
  EXPECT_THAT(kind("a.gz.gz", "\x1f\x8b\x08").refusal,
              HasSubstr("After gunzip -k a.gz.gz: a.gz: is compressed by gzip (it begins with"));
  EXPECT_TRUE(kind("a.csv.gz", "text,id\na,b\n").holds_data);
  EXPECT_FALSE(kind("a.tar.gz", std::string("a/\0", 3)).holds_data);
}

TEST(FileKindTest, UnreadableDataIsNotSkipped) {
  EXPECT_TRUE(KindOfHead("a", "[1]").holds_data);
  EXPECT_TRUE(KindOfHead("a.csv", "a,b\n").holds_data);
  EXPECT_TRUE(KindOfHead("a.npy", "x").holds_data);
  EXPECT_TRUE(KindOfHead("a.bin", "").holds_data);
  EXPECT_TRUE(KindOfHead("a.jsonl.xz", std::string("\xfd\x37zXZ\0", 6)).holds_data);
  EXPECT_TRUE(UnreadableFileKind("a.jsonl.gz", "damaged").holds_data);
  for (const char* name : {"a.json", "a.jsonl.gz", "a.jsonl", "a.zst", "a.txt", "a.bin", "a"}) {
    const FileKind pointer = KindOfHead(name, "version https://git-lfs.github.com/spec/v1\noid ");
    EXPECT_FALSE(pointer.kind.has_value()) << name;
    EXPECT_TRUE(pointer.holds_data) << name;
    EXPECT_THAT(pointer.refusal, HasSubstr("run git lfs pull")) << name;
  }
  EXPECT_FALSE(UnreadableFileKind("a.tar.gz", "damaged").holds_data);
  EXPECT_FALSE(KindOfHead("package.json", "{\n \"name\": \"a\"\n}\n").holds_data);
  EXPECT_FALSE(KindOfHead("a.png", std::string("\x89PNG\0", 5)).holds_data);
  EXPECT_FALSE(KindOfHead("a", "").holds_data);
}

}  // namespace
}  // namespace zeroth
