// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/tokenize/tokenize.h"

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/open_data.h"
#include "zeroth/data/token_file.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

const char kFolder[] = "tests/testdata/tokenizers/llama3";

nlohmann::json Cases() { return *ReadJsonFile(absl::StrCat(kFolder, "/cases.json")); }

std::string LinesOf(const nlohmann::json& cases) {
  std::string lines;
  for (const nlohmann::json& each : cases)
    absl::StrAppend(&lines, nlohmann::json{{"text", each["text"]}}.dump(), "\n");
  return lines;
}

std::vector<int32_t> TokensIn(const std::string& path) {
  const auto source = OpenData(path, {nullptr, 1000});
  EXPECT_TRUE(source.ok()) << source.status();
  if (!source.ok()) return {};
  std::vector<int32_t> ids(static_cast<size_t>((*source)->size()));
  EXPECT_TRUE((*source)->Read(0, absl::MakeSpan(ids)).ok());
  return ids;
}

absl::Status GoOn(const TokenizeCounts&) { return absl::OkStatus(); }

TEST(TokenizeTest, JsonLinesHaveIdsAndText) {
  const TemporaryDirectory dir;
  const nlohmann::json cases = Cases();
  TokenizeOptions options;
  options.tokenizer = kFolder;
  options.in = dir.Write("in.jsonl", LinesOf(cases));
  options.out = dir.File("out.jsonl");
  options.parse_special = true;
  options.overwrite = true;
  options.threads = 3;
  for (const char* const ids : {"ids", "ids_with_special"}) {
    options.add_special_tokens = std::string(ids) != "ids";
    const auto counts = TokenizeFiles(options, GoOn);
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_EQ(counts->documents, 150);
    EXPECT_EQ(counts->bytes, counts->all_bytes);
    const std::vector<std::string> lines =
        absl::StrSplit(ReadTestFile(options.out), '\n', absl::SkipEmpty());
    ASSERT_EQ(lines.size(), cases.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      const nlohmann::json line = nlohmann::json::parse(lines[i]);
      EXPECT_EQ(line["ids"], cases[i][ids]);
      if (*options.add_special_tokens) continue;
      EXPECT_EQ(line["text"], cases[i]["decoded"]);
    }
  }
}

// Shards written by any number of threads equal the tokens that the trainer makes of the text.
TEST(TokenizeTest, ShardsHoldWhatTheTrainerReads) {
  const TemporaryDirectory dir;
  std::mt19937 random(3);
  std::string text;
  for (const nlohmann::json& each : Cases()) {
    text += each["text"].get<std::string>() + " ";
    for (uint32_t i = random() % 300; i > 0; --i) text += i % 7 == 0 ? "nearly " : "all";
  }
  const std::string in = dir.Write("in.jsonl", LinesOf(Cases())) + "," + dir.Write("a.txt", text);
  const auto tokenizer = OpenTokenizer(kFolder);
  ASSERT_TRUE(tokenizer.ok());
  const auto read = OpenData(in, {tokenizer->get(), 1000});
  ASSERT_TRUE(read.ok()) << read.status();
  std::vector<int32_t> expected(static_cast<size_t>((*read)->size()));
  ASSERT_TRUE((*read)->Read(0, absl::MakeSpan(expected)).ok());
  for (const int threads : {1, 2, 5}) {
    for (const std::string name : {"out.bin", "out.npy"}) {
      TokenizeOptions options;
      options.tokenizer = kFolder;
      options.in = in;
      options.out = dir.File(absl::StrCat(threads, name));
      options.threads = threads;
      options.part_bytes = 3000;
      const auto counts = TokenizeFiles(options, GoOn);
      ASSERT_TRUE(counts.ok()) << counts.status();
      EXPECT_EQ(counts->tokens, static_cast<int64_t>(expected.size()));
      EXPECT_EQ(counts->documents, 151);
      EXPECT_EQ(TokensIn(options.out), expected);
      EXPECT_FALSE(std::filesystem::exists(options.out + ".progress"));
    }
  }
}

TEST(TokenizeTest, AnInterruptedRunResumesAtTheSameToken) {
  const TemporaryDirectory dir;
  std::string text;
  for (int i = 0; i < 4000; ++i) absl::StrAppend(&text, "word ", i, i % 9 == 0 ? "\n" : " ");
  TokenizeOptions options;
  options.tokenizer = kFolder;
  options.in = absl::StrCat(dir.Write("a.txt", text), ",", dir.Write("b.jsonl", LinesOf(Cases())),
                            ",", dir.Write("c.txt", text));
  options.threads = 2;
  options.part_bytes = 2000;
  options.shard_tokens = 7000;
  for (const std::string name : {"x.bin", "x.jsonl"}) {
    options.out = dir.File("whole/" + name);
    std::filesystem::create_directories(dir.File("whole"));
    ASSERT_TRUE(TokenizeFiles(options, GoOn).ok());
    for (int stop = 1; stop < 30; stop += 4) {
      const std::string folder = absl::StrCat("stop", stop, name);
      std::filesystem::create_directories(dir.File(folder));
      options.out = dir.File(folder + "/" + name);
      // Interrupted again and again, each time after this many batches.
      int runs = 0;
      while (true) {
        int batches = 0;
        const auto counts = TokenizeFiles(options, [&](const TokenizeCounts&) {
          return ++batches < stop ? absl::OkStatus() : absl::CancelledError("stopped");
        });
        ++runs;
        if (counts.ok()) break;
        ASSERT_EQ(counts.status().code(), absl::StatusCode::kCancelled) << counts.status();
        ASSERT_LT(runs, 200);
      }
      if (stop == 1) {
        EXPECT_GT(runs, 3);
      }
      for (const auto& each : std::filesystem::directory_iterator(dir.File("whole"))) {
        if (each.path().extension() != options.out.substr(options.out.rfind('.'))) continue;
        const std::string file = each.path().filename().string();
        ASSERT_EQ(ReadTestFile(dir.File(folder + "/" + file)), ReadTestFile(each.path().string()))
            << file << " after stops of " << stop;
      }
    }
  }
}

TEST(TokenizeTest, OnlyOneWritesAFileAtATime) {
  const TemporaryDirectory dir;
  TokenizeOptions options;
  options.tokenizer = kFolder;
  options.in = dir.Write("in.jsonl", LinesOf(Cases()));
  options.out = dir.File("out.bin");
  options.part_bytes = 1000;
  TokenizeOptions other = options;
  other.in = dir.Write("other.jsonl", LinesOf(Cases()) + LinesOf(Cases()));
  ASSERT_TRUE(TokenizeFiles(options, GoOn).ok());
  const std::string expected = ReadTestFile(options.out);
  options.overwrite = true;
  bool is_first = true;
  const auto counts = TokenizeFiles(options, [&](const TokenizeCounts&) {
    if (!std::exchange(is_first, false)) return absl::OkStatus();
    const absl::Status refused = TokenizeFiles(other, GoOn).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("another tools/tokenize"));
    other.out = dir.File("other.bin");
    return TokenizeFiles(other, GoOn).status();
  });
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(ReadTestFile(options.out), expected);
  EXPECT_EQ(dir.List().size(), 4u);  // two inputs and two outputs
}

TEST(TokenizeTest, BadRequestsAreRefused) {
  const TemporaryDirectory dir;
  TokenizeOptions good;
  good.tokenizer = kFolder;
  good.in = dir.Write("in.txt", "text of some length, " + std::string(9000, 'x'));
  good.out = dir.File("out.bin");
  good.part_bytes = 100;
  const auto error = [&](const TokenizeOptions& options) {
    return std::string(TokenizeFiles(options, GoOn).status().message());
  };
  TokenizeOptions bad = good;
  bad.in = "";
  EXPECT_THAT(error(bad), HasSubstr("--tokenizer, --in and --out are all needed"));
  bad = good;
  bad.out = dir.File("out.txt");
  EXPECT_THAT(error(bad), HasSubstr("expected a name that ends in .bin"));
  bad.out = dir.File("none/out.bin");
  EXPECT_THAT(error(bad), HasSubstr(absl::StrCat("there is no directory ", dir.File("none"))));
  bad = good;
  bad.tokenizer = dir.path();
  EXPECT_THAT(error(bad), HasSubstr("no tokenizer there"));
  bad.in = dir.Write("bad.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\xff\"}\n");
  bad.tokenizer = "byte";
  EXPECT_THAT(error(bad), HasSubstr("bad.jsonl line 2"));
  std::filesystem::remove(good.out + ".progress");

  const auto stopped =
      TokenizeFiles(good, [](const TokenizeCounts&) { return absl::CancelledError("stopped"); });
  ASSERT_EQ(stopped.status().code(), absl::StatusCode::kCancelled);
  bad = good;
  bad.parse_special = true;
  EXPECT_THAT(error(bad), HasSubstr("another tokenizer, other input or other flags"));
  EXPECT_TRUE(TokenizeFiles(good, GoOn).ok());
}

TEST(TokenizeTest, FilesAreKnownByTheirContent) {
  const TemporaryDirectory dir;
  TokenizeOptions options;
  options.tokenizer = "byte";
  options.out = dir.File("out.npy");
  const auto error = [&](const std::string& name, const std::string& content) {
    options.in = dir.Write(name, content);
    const auto counts = TokenizeFiles(options, GoOn);
    EXPECT_EQ(counts.status().code(), absl::StatusCode::kInvalidArgument) << counts.status();
    return std::string(counts.status().message());
  };
  EXPECT_THAT(error("a.json", "[7]"), HasSubstr("a.json: is a JSON array"));
  EXPECT_THAT(error("a.csv", "text,id\na,1\n"), HasSubstr("a.csv: is a table of comma-separated"));
  EXPECT_THAT(error("talk.txt", "{\"messages\": []}\n"),
              HasSubstr("talk.txt line 1: is a record of the kind messages, expected text"));
  const std::string line = error("long.JSONL", "{\"text\": \"" + std::string(300'000, 'a'));
  EXPECT_THAT(line, HasSubstr("long.JSONL line 1: bad JSON (column 300010)"));
  EXPECT_LT(line.size(), 500u);
  for (const char* const name : {"a.JSONL", "b.json", "c.txt", "array.json"}) {
    options.in = dir.Write(name, absl::StartsWith(name, "array")
                                     ? "[{\"text\": \"ab\"}, {\"text\": \"c\"}]"
                                     : "{\"text\": \"ab\"}\n{\"text\": \"c\"}\n");
    options.out = dir.File(absl::StrCat(name, ".npy"));
    const auto counts = TokenizeFiles(options, GoOn);
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_EQ(counts->documents, 2) << name;
    EXPECT_EQ(counts->tokens, 5) << name;
  }
}

// Existing files, including a shard, are kept unless --overwrite is given; files that tokenize does
// not write are always kept.
TEST(TokenizeTest, ReplacesOnlyItsOwnFilesAndOnlyIfToldTo) {
  const TemporaryDirectory dir;
  TokenizeOptions options;
  options.tokenizer = "byte";
  options.in = dir.Write("in.txt", std::string(100, 'x'));
  options.shard_tokens = 30;
  const auto refusal = [&](bool overwrite) {
    options.overwrite = overwrite;
    const absl::Status status = TokenizeFiles(options, GoOn).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << options.out;
    return std::string(status.message());
  };
  for (const std::string ending : {".bin", ".npy", ".jsonl"}) {
    options.out = dir.Write("foreign" + ending, "a book of words");
    EXPECT_THAT(refusal(false), HasSubstr("say --overwrite to replace it"));
    EXPECT_THAT(refusal(true), HasSubstr("so --overwrite does not replace it"));
    EXPECT_EQ(ReadTestFile(options.out), "a book of words");
    options.overwrite = false;
    options.out = dir.File("own" + ending);
    ASSERT_TRUE(TokenizeFiles(options, GoOn).ok()) << ending;
    EXPECT_THAT(refusal(false), HasSubstr("exists; name another path"));
    options.overwrite = true;
    EXPECT_TRUE(TokenizeFiles(options, GoOn).ok()) << ending;
  }
  // Shards next to the name that a shorter corpus would get.
  options.out = dir.File("book.bin");
  const std::string shard = dir.Write("book-00000.bin", "a book of words");
  EXPECT_THAT(refusal(true), HasSubstr("book-00000.bin exists and is not"));
  EXPECT_EQ(ReadTestFile(shard), "a book of words");
}

TEST(TokenizeTest, NoInputIsReplacedByItsTokens) {
  const TemporaryDirectory dir;
  TokenizeOptions options;
  options.tokenizer = kFolder;
  const std::string a = dir.Write("a.jsonl", LinesOf(Cases()));
  const std::string b = dir.Write("b.jsonl", LinesOf(Cases()));
  for (const std::string& in : {dir.path() + "/./b.jsonl", a + "," + b}) {
    options.in = in;
    options.out = b;
    const absl::Status status = TokenizeFiles(options, GoOn).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("b.jsonl is also --out"));
  }
  EXPECT_EQ(ReadTestFile(b), LinesOf(Cases()));
  // The output of an earlier run in a directory is not input.
  options.out = dir.File("c.jsonl");
  options.overwrite = true;
  for (const std::string& in : {a, dir.path() + "/."}) {
    options.in = in;
    const auto counts = TokenizeFiles(options, GoOn);
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_EQ(counts->documents, in == a ? 150 : 300);
  }
  // So are shards, of which the second run finds those of the first.
  options.in = dir.path();
  options.shard_tokens = 700;
  for (const char* const out : {"c.bin", "c.npy"}) {
    std::filesystem::remove(dir.File("c.jsonl"));
    options.out = dir.File(out);
    for (int run = 0; run < 2; ++run) {
      const auto counts = TokenizeFiles(options, GoOn);
      ASSERT_TRUE(counts.ok()) << counts.status();
      EXPECT_EQ(counts->documents, 300) << out;
    }
    for (int shard = 0; std::filesystem::remove(TokenShardPath(options.out, shard)); ++shard) {
    }
  }
  // A name that begins as the output's is another file.
  dir.Write("c.jsonl.old.jsonl", LinesOf(Cases()));
  options.out = dir.File("c.jsonl");
  const auto counts = TokenizeFiles(options, GoOn);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->documents, 450);
}

// A run that is interrupted between any two rows continues with the next one.
TEST(TokenizeTest, ParquetIsReadAndResumed) {
  const TemporaryDirectory dir;
  TokenizeOptions options;
  options.tokenizer = "byte";
  options.in = "tests/testdata/parquet/text.parquet";
  options.out = dir.File("whole.bin");
  const auto whole = TokenizeFiles(options, GoOn);
  if (absl::IsUnimplemented(whole.status())) GTEST_SKIP() << "built without Arrow";
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->documents, 4);
  EXPECT_EQ(whole->tokens, 3 + 10 + 0 + 4 + 4);
  options.out = dir.File("parts.bin");
  options.threads = 1;
  options.part_bytes = 1;
  int interruptions = 0;
  while (true) {
    const auto counts =
        TokenizeFiles(options, [](const TokenizeCounts&) { return absl::AbortedError("stop"); });
    if (counts.ok()) break;
    ASSERT_EQ(counts.status().code(), absl::StatusCode::kAborted) << counts.status();
    ++interruptions;
  }
  EXPECT_EQ(interruptions, 4);
  EXPECT_EQ(ReadFile(dir.File("parts.bin"), 1 << 20).value(),
            ReadFile(dir.File("whole.bin"), 1 << 20).value());
}

// A run that is interrupted anywhere in a compressed file continues there.
TEST(TokenizeTest, CompressedFilesAreReadAndResumed) {
  const TemporaryDirectory dir;
  std::string book;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&book, "word ", i, " ");
  const std::string packed = "tests/testdata/compressed/";
  for (const std::string& in : {packed + "book.txt.gz," + packed + "lines.jsonl.gz",
                                packed + "book.txt.zst," + packed + "lines.jsonl.zst"}) {
    TokenizeOptions options;
    options.tokenizer = "byte";
    options.in = in;
    options.out = dir.File("whole.bin");
    options.overwrite = true;
    const auto whole = TokenizeFiles(options, GoOn);
    if (absl::StrContains(whole.status().message(), "built without Arrow"))
      GTEST_SKIP() << "built without Arrow";
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->documents, 1 + 5000);
    EXPECT_EQ(whole->bytes, whole->all_bytes);
    const std::vector<int32_t> ids = TokensIn(options.out);
    EXPECT_EQ(std::string(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(book.size())), book);
    options.out = dir.File("parts.bin");
    options.threads = 1;
    options.part_bytes = 9000;
    int interruptions = 0;
    while (true) {
      int batches = 0;
      const auto counts = TokenizeFiles(options, [&batches](const TokenizeCounts& so_far) {
        EXPECT_LE(so_far.bytes, so_far.all_bytes);
        EXPECT_LE(so_far.resumed_bytes, so_far.bytes);
        return ++batches == 3 ? absl::AbortedError("stop") : absl::OkStatus();
      });
      if (counts.ok()) break;
      ASSERT_EQ(counts.status().code(), absl::StatusCode::kAborted) << counts.status();
      ++interruptions;
    }
    EXPECT_GT(interruptions, 10) << in;
    EXPECT_TRUE(TokensIn(options.out) == ids) << in;
  }
}

}  // namespace
}  // namespace zeroth
