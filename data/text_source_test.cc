// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/documents.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

// Bytes, with as many unused ids as asked.
class PaddedBytes final : public Tokenizer {
 public:
  explicit PaddedBytes(int32_t vocab_size) : vocab_size_(vocab_size) {}
  std::string name() const override { return "padded"; }
  int32_t vocab_size() const override { return vocab_size_; }
  int32_t end_of_text() const override { return vocab_size_ - 1; }
  std::optional<int32_t> Find(absl::string_view) const override { return std::nullopt; }
  absl::Status EncodeTo(absl::string_view text, bool continues, Sink sink) const override {
    return ByteTokenizer().EncodeTo(text, continues, sink);
  }
  bool CutsAtSpaces() const override { return true; }

 protected:
  absl::StatusOr<std::string> DecodeIds(absl::Span<const int32_t> ids, bool) const override {
    return ByteTokenizer().Decode(ids);
  }

 private:
  int32_t vocab_size_;
};

class TextSourceTest : public ::testing::Test {
 protected:
  // Small and empty files, and some beyond 64 KiB, which stay open.
  void SetUp() override {
    std::mt19937 random(19);
    for (const size_t size : {size_t{5}, size_t{0}, size_t{70'000}, size_t{65'536}, size_t{1}}) {
      std::string text(size, '\0');
      for (char& c : text) c = static_cast<char>(random());
      texts_.push_back(text);
      paths_.push_back(dir_.Write("f" + std::to_string(paths_.size()), text));
      files_.push_back({paths_.back()});
    }
  }

  void ExpectContent(const TokenSource& source, int32_t end_of_text) {
    std::vector<int32_t> expected;
    for (const std::string& text : texts_) {
      for (const char c : text) expected.push_back(static_cast<uint8_t>(c));
      expected.push_back(end_of_text);
    }
    ASSERT_EQ(source.size(), static_cast<int64_t>(expected.size()));
    EXPECT_EQ(source.row_length(), 0);
    std::mt19937 random(23);
    for (int trial = 0; trial < 300; ++trial) {
      const size_t begin = random() % (expected.size() + 1);
      const size_t count =
          std::min<size_t>(expected.size() - begin, random() % (trial % 10 == 0 ? 100'000 : 20));
      std::vector<int32_t> ids(count);
      ASSERT_TRUE(source.Read(static_cast<int64_t>(begin), absl::MakeSpan(ids)).ok());
      ASSERT_TRUE(std::equal(ids.begin(), ids.end(),
                             expected.begin() + static_cast<std::ptrdiff_t>(begin)));
    }
    std::vector<int32_t> all(expected.size());
    ASSERT_TRUE(source.Read(0, absl::MakeSpan(all)).ok());
    EXPECT_EQ(all, expected);
    EXPECT_EQ(source.Read(1, absl::MakeSpan(all)).code(), absl::StatusCode::kOutOfRange);
  }

  TemporaryDirectory dir_;
  std::vector<std::string> texts_;
  std::vector<std::string> paths_;
  std::vector<DataFile> files_;
};

TEST_F(TextSourceTest, Bytes) {
  const auto source = OpenByteText(files_);
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectContent(**source, 256);
  EXPECT_EQ((*source)->description(), paths_[0] + " and 4 more");
}

TEST_F(TextSourceTest, EncodedInSixteenBits) {
  const auto source = EncodeText(files_, PaddedBytes(65'536));
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectContent(**source, 65'535);
}

TEST_F(TextSourceTest, EncodedInThirtyTwoBits) {
  const auto source = EncodeText(files_, PaddedBytes(65'537));
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectContent(**source, 65'536);
}

TEST_F(TextSourceTest, AFileThatIsCutShortWhileItIsReadIsAnError) {
  const auto source = OpenByteText(files_);
  ASSERT_TRUE(source.ok()) << source.status();
  std::filesystem::resize_file(paths_[2], 1000);
  std::filesystem::resize_file(paths_[0], 0);  // of which there is a copy
  std::vector<int32_t> ids(500);
  EXPECT_EQ((*source)->Read(0, absl::MakeSpan(ids)), absl::OkStatus());
  const absl::Status status = (*source)->Read(60'000, absl::MakeSpan(ids));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(
      std::string(status.message()),
      ::testing::ContainsRegex(paths_[2] + ": ends at or before byte [0-9]+, .* been truncated"));
}

TEST_F(TextSourceTest, ALongTextIsEncodedInPartsAsIfItWereWhole) {
  // Words and white space of all kinds, more than is held at a time. One stretch has no place to
  // cut.
  const std::vector<std::string> words = {"word", "\xc3\xa4\xc3\xb6", "12", "'s",
                                          "...",  "\xe3\x80\x80"};
  const std::vector<std::string> spaces = {" ", "  ", "\n", " \n ", "\t", ""};
  std::mt19937 random(29);
  std::string text;
  while (text.size() < (size_t{18} << 20)) {
    text += words[random() % words.size()];
    if (random() % 4 == 0) text += std::string(random() % 2000, 'a');
    text += spaces[random() % spaces.size()];
  }
  for (int i = 0; i < 6'000'000; ++i) text += "\xe3\x80\x81\n\n"[i % 5];
  text += " end of all";
  const auto tokenizer = OpenTokenizer("tests/testdata/tokenizers/llama2");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ASSERT_TRUE((*tokenizer)->CutsAtSpaces());
  const auto source = EncodeText({{dir_.Write("long", text)}}, **tokenizer);
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<int32_t> expected = *(*tokenizer)->Encode(text);
  expected.insert(expected.begin(), 1);  // the template's <s>
  expected.push_back(2);                 // </s>
  std::vector<int32_t> ids(static_cast<size_t>((*source)->size()));
  ASSERT_EQ((*source)->Read(0, absl::MakeSpan(ids)), absl::OkStatus());
  EXPECT_TRUE(ids == expected);
}

TEST_F(TextSourceTest, MissingFilesAreErrors) {
  EXPECT_EQ(OpenByteText({{dir_.File("absent")}}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(EncodeText({{dir_.File("absent")}}, PaddedBytes(300)).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace zeroth
