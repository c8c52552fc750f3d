// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/open_data.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/data/test_token_files.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  EXPECT_THAT(
      error("{\"text\": \"h\"}\n{\"txt\": \"h\"}\n"),
      HasSubstr("b.jsonl line 2: expected an object with \"text\", a string, found the keys"));
  EXPECT_THAT(error("[\"text\"]"), HasSubstr("b.jsonl: is a JSON array"));
  EXPECT_THAT(error("{\"text\": \"a\", \"weight\": 0}"),
              HasSubstr("line 1: has \"weight\": 0, but"));
  EXPECT_THAT(error("{\"text\": \"a\"}\n{\"text\": \"a\", \"messages\": []}"),
              HasSubstr("line 2: has \"text\" and \"messages\""));
  EXPECT_THAT(
      error("{\"instruction\": \"a\", \"input\": \"\", \"output\": \"b\"}"),
      HasSubstr("line 1: expected an object with \"text\", a string, and this is of the Alpaca "
                "format (\"instruction\", \"input\", \"output\"); expected {\"messages\": ["));
  EXPECT_THAT(error("{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}]}"),
              HasSubstr("and this is of the ShareGPT format"));
  EXPECT_THAT(
      error("{\"prompt\": \"a\", \"completion\": \"b\"}"),
      HasSubstr("and this is of the format \"prompt\", \"completion\"; expected {\"messages\""));
  EXPECT_LT(error("{\"text\": \"" + std::string(300'000, 'a')).size(), 500u);
  EXPECT_THAT(error("{\"text\": 1}"), HasSubstr("line 1: expected an object"));
  EXPECT_THAT(error("\n\n{\"text\": \"h"), HasSubstr("b.jsonl line 3"));
  EXPECT_THAT(error("{\"text\": \"\xff\"}"), HasSubstr("b.jsonl line 1"));
  EXPECT_THAT(
      std::string(OpenData(dir.Write("t.parquet", "PAR1"), {&tokenizer, 257}).status().message()),
      HasSubstr("tools/tokenize"));
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
              HasSubstr("needs a tokenizer"));
  EXPECT_THAT(std::string(OpenData(text, {&tokenizer, 256}).status().message()),
              HasSubstr("the byte tokenizer makes ids up to 256, \"<|endoftext|>\", but the "
                        "model's vocabulary has only 256"));
  EXPECT_EQ(OpenData(text, {&tokenizer, 0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenData(dir.File("absent"), {&tokenizer, 257}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace zeroth
