// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/text_source.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/byte_tokenizer.h"

namespace zeroth {
namespace {

// Bytes, with as many unused ids as asked.
class PaddedBytes final : public Tokenizer {
 public:
  explicit PaddedBytes(int32_t vocab_size) : vocab_size_(vocab_size) {}
  std::string name() const override { return "padded"; }
  int32_t vocab_size() const override { return vocab_size_; }
  int32_t end_of_text() const override { return vocab_size_ - 1; }
  void EncodeTo(absl::string_view text, Sink sink) const override {
    ByteTokenizer().EncodeTo(text, sink);
  }
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids) const override {
    return ByteTokenizer().Decode(ids);
  }

 private:
  int32_t vocab_size_;
};

class TextSourceTest : public ::testing::Test {
 protected:
  // Small, empty, mapped (beyond 64 KiB) and ordinary files.
  void SetUp() override {
    std::mt19937 random(19);
    for (const size_t size : {size_t{5}, size_t{0}, size_t{70'000}, size_t{65'536}, size_t{1}}) {
      std::string text(size, '\0');
      for (char& c : text) c = static_cast<char>(random());
      texts_.push_back(text);
      paths_.push_back(dir_.Write("f" + std::to_string(paths_.size()), text));
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
};

TEST_F(TextSourceTest, Bytes) {
  const auto source = OpenByteText(paths_);
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectContent(**source, 256);
  EXPECT_EQ((*source)->description(), paths_[0] + " and 4 more");
}

TEST_F(TextSourceTest, EncodedInSixteenBits) {
  const auto source = EncodeText(paths_, PaddedBytes(65'536));
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectContent(**source, 65'535);
}

TEST_F(TextSourceTest, EncodedInThirtyTwoBits) {
  const auto source = EncodeText(paths_, PaddedBytes(65'537));
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectContent(**source, 65'536);
}

TEST_F(TextSourceTest, MissingFilesAreErrors) {
  EXPECT_EQ(OpenByteText({dir_.File("absent")}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(EncodeText({dir_.File("absent")}, PaddedBytes(300)).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace zeroth
