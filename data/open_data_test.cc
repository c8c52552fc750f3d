// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/open_data.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/test_token_files.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<int32_t> ReadAll(const TokenSource& source) {
  std::vector<int32_t> ids(static_cast<size_t>(source.size()));
  EXPECT_TRUE(source.Read(0, absl::MakeSpan(ids)).ok());
  return ids;
}

TEST(OpenDataTest, TextAsBytes) {
  const TemporaryDirectory dir;
  dir.Write("1.txt", "hi");
  dir.Write("2.txt", "<");
  const ByteTokenizer tokenizer;
  const auto source = OpenData(dir.path(), {&tokenizer, 257});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(ReadAll(**source), ElementsAre('h', 'i', 256, '<', 256));
  EXPECT_THAT((*source)->notes(), IsEmpty());
  dir.Write("3.gz", std::string("\x1f\x8b\0", 3));
  const auto rest = OpenData(dir.path(), {&tokenizer, 257});
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(ReadAll(**rest), ReadAll(**source));
  EXPECT_THAT((*rest)->notes(), ElementsAre(HasSubstr("left out: " + dir.File("3.gz"))));
}

TEST(OpenDataTest, TextAsBytePairs) {
  const TemporaryDirectory dir;
  nlohmann::json vocab;
  for (int byte = 0; byte < 256; ++byte)
    vocab[BytesToAlphabet(std::string(1, static_cast<char>(byte)))] = byte;
  vocab["hi"] = 256;
  vocab["<|endoftext|>"] = 257;
  dir.Write("model/vocab.json", vocab.dump());
  dir.Write("model/merges.txt", "h i\n");
  const auto tokenizer = OpenTokenizer(dir.File("model"), {.parse_special = true});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::string text = dir.Write("t.txt", "hi <|endoftext|>h");
  const auto source = OpenData(text, {tokenizer->get(), 300});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(ReadAll(**source), ElementsAre(256, ' ', 257, 'h', 257));
}

// Parts with weights may be of kinds that cannot be mixed otherwise.
TEST(OpenDataTest, SourcesWithWeights) {
  const TemporaryDirectory dir;
  const std::string text = dir.Write("a.jsonl", "{\"text\": \"hi\"}");
  const std::string tokens = dir.Write("b.npy", NpyBytes<uint16_t>("<u2", "(2,)", {7, 8}));
  const ByteTokenizer tokenizer;
  EXPECT_FALSE(OpenMixture(text + "," + tokens, {&tokenizer, 257}).ok());
  const auto mixture = OpenMixture(text + ":3," + tokens + ":1", {&tokenizer, 257});
  ASSERT_TRUE(mixture.ok()) << mixture.status();
  ASSERT_EQ((*mixture)->sources(), 2u);
  EXPECT_THAT(ReadAll((*mixture)->source(0)), ElementsAre('h', 'i', 256));
  EXPECT_THAT(ReadAll((*mixture)->source(1)), ElementsAre(7, 8));
  EXPECT_EQ((*mixture)->share(0), 750);
  EXPECT_EQ((*mixture)->tokens(), 5);
  EXPECT_THAT((*mixture)->description(), HasSubstr("b.npy (250 of 1000)"));
  const auto alone = OpenMixture(tokens, {&tokenizer, 257});
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ((*alone)->description(), tokens);
}

TEST(OpenDataTest, JsonLinesAreDocuments) {
  const TemporaryDirectory dir;
  const ByteTokenizer tokenizer;
  const std::string good = dir.Write("a.jsonl",
                                     "{\"text\": \"h\", \"id\": 7}\n\n {\"text\": \"\"}\r\n"
                                     "{\"text\": \"\\u00e9\\n\"}");
  const auto source = OpenData(good, {&tokenizer, 257});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(ReadAll(**source), ElementsAre('h', 256, 256, 0xC3, 0xA9, '\n', 256));
  const auto error = [&](const std::string& lines) {
    const auto bad = OpenData(dir.Write("b.jsonl", lines), {&tokenizer, 257});
    EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument) << bad.status();
    return std::string(bad.status().message());
  };
  EXPECT_EQ((*source)->description(), good + " (text)");
  EXPECT_THAT(error("{\"text\": \"h\"}\n{\"txt\": \"h\"}\n"),
              HasSubstr("b.jsonl line 2: expected one of {\"text\": \"...\"}, {\"messages\""));
  EXPECT_THAT(error("{\"text\": \"h\"}\n{\"txt\": \"h\"}\n"),
              HasSubstr(", found {\"txt\":\"h\"};"));
  EXPECT_THAT(error("[\"text\"]"),
              HasSubstr("b.jsonl: is a JSON array whose first element is not an object"));
  EXPECT_THAT(error("{\"text\": \"a\", \"weight\": 0}"),
              HasSubstr("line 1: has \"weight\": 0, but"));
  EXPECT_THAT(error("{\"text\": \"a\"}\n{\"text\": \"a\", \"messages\": []}"),
              HasSubstr("line 2: is a record of the kind messages, expected text"));
  EXPECT_LT(error("{\"text\": \"" + std::string(300'000, 'a')).size(), 500u);
  EXPECT_THAT(error("{\"text\": 1}"), HasSubstr("line 1: \"text\" is number"));
  EXPECT_THAT(error("\n\n{\"text\": \"h"), HasSubstr("b.jsonl line 3"));
  EXPECT_THAT(error("{\"text\": \"\xff\"}"), HasSubstr("b.jsonl line 1"));
}

class CompressedDataTest : public testing::Test {
 protected:
  void SetUp() override {
    if (absl::StrContains(FindDataFiles(PathOf("book.txt.gz")).status().message(),
                          "built without Arrow"))
      GTEST_SKIP() << "built without Arrow";
  }

  static std::string PathOf(const std::string& name) { return "tests/testdata/compressed/" + name; }
  // The ids of ByteTokenizer.
  std::vector<int32_t> Ids(const std::string& spec, const std::string& cache = "none") {
    const ByteTokenizer tokenizer;
    DataOptions options = {&tokenizer, 257};
    options.cache_dir = cache;
    const auto source = OpenData(spec, options);
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return {};
    notes_ = (*source)->notes();
    description_ = (*source)->description();
    return ReadAll(**source);
  }
  std::string ErrorOf(const std::string& spec) {
    const ByteTokenizer tokenizer;
    const absl::Status status = OpenData(spec, {&tokenizer, 257}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  const TemporaryDirectory dir_;
  std::vector<std::string> notes_;
  std::string description_;
};

TEST_F(CompressedDataTest, HasTheTokensOfTheSameFilesUnpacked) {
  std::string lines;
  std::string book;
  for (int i = 0; i < 5000; ++i) {
    absl::StrAppend(&lines, "{\"text\": \"Line ", i, " of many.\"}\n");
    absl::StrAppend(&book, "word ", i, " ");
  }
  const std::string array =
      "[{\"text\": \"Line 0 of many.\"}, {\"text\": \"Line 1 of many.\"}, {\"text\": \"Line 2 "
      "of many.\"}]";
  for (const auto& [name, content] : std::vector<std::pair<std::string, std::string>>{
           {"lines.jsonl", lines}, {"array.json", array}, {"book.txt", book}}) {
    const std::vector<int32_t> expected = Ids(dir_.Write(name, content));
    const std::string description = description_.substr(dir_.path().size() + 1 + name.size());
    for (const std::string ending : {".gz", ".zst"}) {
      const std::string packed = ReadTestFile(PathOf(name + ending));
      EXPECT_TRUE(Ids(PathOf(name + ending)) == expected) << name << ending;
      EXPECT_EQ(description_, PathOf(name + ending) + description);
      // The content decides, not the name.
      EXPECT_TRUE(Ids(dir_.Write("data", packed)) == expected) << name << ending;
    }
  }
  std::filesystem::remove(dir_.File("data"));
  // Compressed and other files of a directory, in the order of their names.
  dir_.Write("array.json.gz", ReadTestFile(PathOf("array.json.gz")));
  std::filesystem::remove(dir_.File("lines.jsonl"));
  std::vector<int32_t> all = Ids(PathOf("array.json.gz"));
  all.insert(all.end(), all.begin(), all.end());
  const std::vector<int32_t> last = Ids(PathOf("book.txt.zst"));
  all.insert(all.end(), last.begin(), last.end());
  EXPECT_TRUE(Ids(dir_.path()) == all);
}

TEST_F(CompressedDataTest, IsEncodedAgainIfTheFileChanges) {
  const std::string gzip = ReadTestFile(PathOf("array.json.gz"));
  const std::string cache = dir_.File("cache");
  const std::string path = dir_.Write("a.json.gz", gzip);
  const std::vector<int32_t> first = Ids(path, cache);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("encoded, and kept in")));
  EXPECT_EQ(Ids(path, cache), first);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("encoded before")));
  dir_.Write("a.json.gz", ReadTestFile(PathOf("lines.jsonl.gz")));
  EXPECT_EQ(Ids(path, cache), Ids(PathOf("lines.jsonl.zst")));
  EXPECT_THAT(Ids(path, cache), Not(first));
}

TEST_F(CompressedDataTest, IsRefusedWithItsNameIfItCannotBeRead) {
  const std::string packed = ReadTestFile(PathOf("lines.jsonl.gz"));
  // Damage at once, and behind the bytes that tell the kind.
  std::string bad = packed;
  bad[200] = static_cast<char>(bad[200] ^ 0x41);
  const std::string path = dir_.Write("a.jsonl.gz", bad);
  EXPECT_THAT(ErrorOf(path), HasSubstr(path + ": is compressed by gzip, but cannot be "));
  EXPECT_THAT(ErrorOf(dir_.path()), HasSubstr(path + ": is compressed by gzip, but cannot be "));
  dir_.Write("a.jsonl.gz", packed.substr(0, packed.size() - 1));
  EXPECT_THAT(ErrorOf(path), HasSubstr(path + ": is compressed by gzip, but is cut short behind " +
                                       "153890 bytes of its content"));
  // Tokens are read at any place, and tables and binary files not at all.
  EXPECT_THAT(ErrorOf(PathOf("tokens.npy.zst")),
              HasSubstr("tokens.npy.zst: is compressed by zstd, which only text, JSON lines and "
                        "JSON arrays may be; unpack it: zstd -d tests"));
  EXPECT_THAT(ErrorOf(PathOf("table.csv.gz")),
              HasSubstr("table.csv.gz: is compressed by gzip, and its content is not read. After "
                        "gunzip -k tests/testdata/compressed/table.csv.gz: "
                        "tests/testdata/compressed/table.csv: is a table"));
  EXPECT_THAT(ErrorOf(PathOf("empty.txt.gz")), HasSubstr("empty.txt: is empty"));
  // A line of 100 MB is not read to its end.
  EXPECT_THAT(ErrorOf(PathOf("long.jsonl.zst")), HasSubstr("long.jsonl.zst line 1: "));
}

// A record of no known kind is never trained as text.
TEST(OpenDataTest, RecordsOfNoKindAreRefused) {
  const TemporaryDirectory dir;
  const ByteTokenizer tokenizer;
  for (const std::string& content : std::vector<std::string>{
           R"([{"question": "a", "answer": "b"}])", R"({"question": "a", "answer": "b"})"}) {
    const std::string path = dir.Write("b.json", content);
    const auto bad = OpenData(path, {&tokenizer, 257});
    EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(bad.status().message(),
                HasSubstr("1: expected one of {\"text\": \"...\"}, {\"messages\""));
    EXPECT_THAT(bad.status().message(), HasSubstr("found {\"question\":\"a\",\"answer\":\"b\"}"));
  }
  for (const auto& [content, message] : std::vector<std::pair<std::string, std::string>>{
           {"{\n \"text\": \"a\"\n}\n", "b.json: is a JSON object of several lines"},
           {"[1, 2]", "b.json: is a JSON array whose first element is not an object"},
           {"[]", "b.json: is a JSON array whose first element is not an object"},
           {"{\"a\" 1}", "b.json line 1: bad JSON"},
           {"[1] Smith", "b.json: record 1: expected an object, found \"1] Smith\""},
           {"[{\"text\": \"a\"}] and more",
            "b.json: expected nothing behind ], found \"and more\""},
           {"[{\"text\": \"a\"},\n{\"text\" 1}]", "b.json record 2: bad JSON"}}) {
    const auto bad = OpenData(dir.Write("b.json", content), {&tokenizer, 257});
    EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument) << content;
    EXPECT_THAT(bad.status().message(), HasSubstr(message)) << content;
  }
}

// Each kind is named, and files of several kinds with a template may be mixed, but not with text.
TEST(OpenDataTest, KindsOfRecordsAreNamed) {
  const TemporaryDirectory dir;
  const ByteTokenizer tokenizer;
  const std::string alpaca =
      dir.Write("a.json", R"([{"instruction": "a", "input": "", "output": "b"}])");
  const std::string prompt = dir.Write("p.jsonl", R"({"prompt": "a", "completion": "b"})");
  const std::string text = dir.Write("t.json", R"([{"text": "hi"}, {"text": "you"}])");
  DataOptions options = {&tokenizer, 257};
  options.seq_len = 255;
  const auto open = [&](const std::string& spec) {
    const auto source = OpenMixture(spec, options);
    return source.ok() ? (*source)->description() : std::string(source.status().message());
  };
  EXPECT_EQ(open(alpaca), alpaca + " (Alpaca)");
  EXPECT_EQ(open(alpaca + "," + prompt), alpaca + " and 1 more (Alpaca, prompt/completion)");
  EXPECT_EQ(open(text), text + " (text)");
  // An export may have parts without records.
  const std::string none = dir.Write("none.jsonl", "\n");
  EXPECT_EQ(open(none + "," + alpaca + "," + none), alpaca + " (Alpaca)");
  EXPECT_EQ(open(none + "," + none), none +
                                         ": holds no record, nor do the other files; expected "
                                         "at least one");
  EXPECT_THAT(open(text + "," + prompt),
              HasSubstr("text and other records cannot be mixed: " + prompt +
                        " holds prompt/completion records, " + text + " text; give each a weight"));
  EXPECT_THAT(open(text + ":1," + prompt + ":1"),
              HasSubstr(prompt + " (prompt/completion) (500 of 1000)"));
  // The prompt is one byte; the completion has another, and the end-of-text token.
  const auto counted = OpenData(prompt, options);
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_THAT((*counted)->notes(),
              ElementsAre("data      " + prompt +
                          ": 1 examples of 3 tokens, 2 of them in the loss; packed into 256 "
                          "tokens, 98.8% of them padding"));
  const auto source = OpenData(text, options);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(ReadAll(**source), ElementsAre('h', 'i', 256, 'y', 'o', 'u', 256));
  // A template that is named must exist.
  options.chat_template = "chatml";
  EXPECT_THAT(open(alpaca), HasSubstr("has no special tokens"));
  options.chat_template = "auto";
  options.columns = "text=content";
  EXPECT_THAT(open(text), HasSubstr("--data_columns=text=content: no record has \"content\""));
  // A misspelt column is named before the kind that the record lacks without it.
  options.columns = "prompt=questoin,completion=answer";
  const std::string pairs = dir.Write("d.jsonl", R"({"question": "a", "answer": "b", "id": 1})");
  EXPECT_EQ(open(pairs), pairs +
                             " line 1: --data_columns=prompt=questoin: no record has "
                             "\"questoin\"; the first has \"question\", \"answer\", \"id\"");
  options.columns = "text=content";
  EXPECT_THAT(open(dir.Write("c.txt", "plain")), HasSubstr("c.txt is text without records"));
  EXPECT_THAT(open(dir.Write("b.npy", NpyBytes<uint16_t>("<u2", "(2,)", {7, 8}))),
              HasSubstr("b.npy holds tokens, so --data_columns"));
  EXPECT_EQ(open(dir.Write("c.jsonl", "{\"content\": \"a\"}")), dir.File("c.jsonl") + " (text)");
}

TEST(OpenDataTest, TokenFilesNeedNoTokenizer) {
  const TemporaryDirectory dir;
  dir.Write("a.npy", NpyBytes<int32_t>("<i4", "(2,)", {5, 6}));
  dir.Write("b.bin", LlmcBytes<uint16_t>({7}));
  const auto source = OpenData(dir.path(), {nullptr, 10});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(ReadAll(**source), ElementsAre(5, 6, 7));
  dir.Write("c.npy", NpyBytes<int32_t>("<i4", "(1, 2)", {5, 6}));
  EXPECT_THAT(std::string(OpenData(dir.path(), {nullptr, 10}).status().message()),
              HasSubstr("c.npy has rows of 2 tokens"));
}

TEST(OpenDataTest, ErrorsSayWhatIsMissing) {
  const TemporaryDirectory dir;
  const ByteTokenizer tokenizer;
  const std::string text = dir.Write("t.txt", "text");
  EXPECT_THAT(std::string(OpenData("", {&tokenizer, 257}).status().message()),
              HasSubstr("no data"));
  EXPECT_THAT(std::string(OpenData(text, {nullptr, 257}).status().message()),
              HasSubstr("no tokenizer is given"));
  EXPECT_THAT(std::string(OpenData(text, {&tokenizer, 256}).status().message()),
              HasSubstr("the byte tokenizer makes ids up to 256, \"<|endoftext|>\", but the "
                        "model's vocabulary has only 256"));
  EXPECT_EQ(OpenData(text, {&tokenizer, 0}).status().code(), absl::StatusCode::kInvalidArgument);
  // A tokenizer.model with padding beyond the model's rows, which no text has, and with a token
  // that texts have.
  const std::string model = "tests/testdata/tokenizers/sentencepiece/tokenizer.model";
  dir.Write("tokenizer.model", *ReadFile(model));
  const int32_t size = OpenTokenizer(model).value()->vocab_size();
  dir.Write("tokenizer_config.json", R"({"pad_token": "<pad>"})");
  const std::string added = absl::StrCat("{\"<pad>\": ", size, "}");
  dir.Write("added_tokens.json", added);
  const auto padded = OpenTokenizer(dir.File("tokenizer.model")).value();
  EXPECT_EQ(padded->vocab_size(), size + 1);
  const auto source = OpenData(text, {padded.get(), size});
  EXPECT_TRUE(source.ok()) << source.status();
  dir.Write("tokenizer_config.json", "{}");
  const auto found = OpenTokenizer(dir.File("tokenizer.model")).value();
  EXPECT_THAT(std::string(OpenData(text, {found.get(), size}).status().message()),
              AllOf(HasSubstr(absl::StrCat("makes ids up to ", size, ", \"<pad>\"")),
                    HasSubstr("take them out of the files beside a tokenizer.model")));
  // Special tokens beyond the model's rows are refused where a chat template writes them.
  dir.Write("added_tokens.json", "{}");
  dir.Write("tokenizer_config.json",
            R"({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})");
  const auto chatml = OpenTokenizer(dir.File("tokenizer.model")).value();
  EXPECT_TRUE(OpenData(text, {chatml.get(), size}).ok());
  const std::string talk =
      dir.Write("talk.jsonl", R"({"messages": [{"role": "user", "content": "a"},)"
                              R"( {"role": "assistant", "content": "b"}]})");
  DataOptions talks;
  talks.tokenizer = chatml.get();
  talks.vocab_size = size;
  talks.chat_template = "chatml";
  talks.seq_len = 64;
  talks.cache_dir = "none";
  EXPECT_THAT(std::string(OpenData(talk, talks).status().message()),
              HasSubstr(absl::StrCat("the chat template writes the token ", size + 1,
                                     ", \"<|im_end|>\", but the model's vocabulary has only ")));
  talks.vocab_size = size + 2;
  EXPECT_TRUE(OpenData(talk, talks).ok());
  EXPECT_EQ(OpenData(dir.File("absent"), {&tokenizer, 257}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace zeroth
