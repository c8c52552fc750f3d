// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/token_source.h"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

// Counts from `first`.
class Counting final : public TokenSource {
 public:
  Counting(int32_t first, int64_t size, int64_t row_length = 0,
           absl::Status status = absl::OkStatus())
      : TokenSource({size, row_length, false, "counting from " + std::to_string(first), {}}),
        first_(first),
        status_(std::move(status)) {}

 private:
  absl::Status DoRead(int64_t begin, absl::Span<int32_t> out) const override {
    std::iota(out.begin(), out.end(), first_ + static_cast<int32_t>(begin));
    return status_;
  }

  int32_t first_;
  absl::Status status_;
};

TEST(ConcatenateTest, ReadsAcrossParts) {
  std::vector<std::shared_ptr<const TokenSource>> parts;
  int32_t total = 0;
  for (const int64_t size : {3, 1, 7, 2}) {
    parts.push_back(std::make_shared<Counting>(total, size));
    total += static_cast<int32_t>(size);
  }
  const auto source = Concatenate(parts);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->size(), total);
  EXPECT_EQ((*source)->description(), "counting from 0 and 3 more");
  for (int64_t begin = 0; begin <= total; ++begin) {
    for (int64_t end = begin; end <= total; ++end) {
      std::vector<int32_t> ids(static_cast<size_t>(end - begin));
      ASSERT_TRUE((*source)->Read(begin, absl::MakeSpan(ids)).ok());
      for (int64_t i = begin; i < end; ++i) ASSERT_EQ(ids[static_cast<size_t>(i - begin)], i);
    }
  }
  std::vector<int32_t> beyond(2);
  EXPECT_EQ((*source)->Read(total - 1, absl::MakeSpan(beyond)).code(),
            absl::StatusCode::kOutOfRange);
}

TEST(ConcatenateTest, OneSourceStaysItself) {
  const auto part = std::make_shared<Counting>(0, 4);
  EXPECT_EQ(*Concatenate({part}), part);
}

TEST(ConcatenateTest, RefusesMixedRows) {
  const auto source =
      Concatenate({std::make_shared<Counting>(0, 6, 3), std::make_shared<Counting>(6, 6)});
  EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(source.status().message()),
              HasSubstr("counting from 0 has rows of 3 tokens, counting from 6 is a stream"));
  EXPECT_EQ(
      (*Concatenate({std::make_shared<Counting>(0, 6, 3), std::make_shared<Counting>(6, 3, 3)}))
          ->row_length(),
      3);
}

TEST(ConcatenateTest, ErrorsOfPartsPassThrough) {
  const auto source = Concatenate({std::make_shared<Counting>(0, 3),
                                   std::make_shared<Counting>(3, 3, 0, absl::DataLossError("x"))});
  std::vector<int32_t> ids(2);
  EXPECT_TRUE((*source)->Read(0, absl::MakeSpan(ids)).ok());
  EXPECT_EQ((*source)->Read(2, absl::MakeSpan(ids)).code(), absl::StatusCode::kDataLoss);
}

TEST(ViewTokensTest, ReadsAPartWithItsOwnFactsAndMarks) {
  const auto marked = std::make_shared<const TokensInMemory<uint16_t>>(
      std::vector<uint16_t>{7, 8, 9, 65535}, TokenSource::Facts(),
      std::vector<uint8_t>{0, 1, 2, 3});
  std::vector<int32_t> ids(2);
  std::vector<uint8_t> marks(2);
  const auto part = ViewTokens(marked, 2, {2, 0, true, "part", {"note"}});
  ASSERT_TRUE(part->Read(0, absl::MakeSpan(ids)).ok());
  ASSERT_TRUE(part->ReadMarks(0, absl::MakeSpan(marks)).ok());
  EXPECT_EQ(ids, (std::vector<int32_t>{9, 65535}));
  EXPECT_EQ(marks, (std::vector<uint8_t>{2, 3}));
  EXPECT_EQ(part->notes(), std::vector<std::string>{"note"});
  // A view ends at the size of its facts, before the end of its source.
  for (const int64_t begin : {-1, 1}) {
    EXPECT_EQ(part->Read(begin, absl::MakeSpan(ids)).code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(part->ReadMarks(begin, absl::MakeSpan(marks)).code(), absl::StatusCode::kOutOfRange);
  }
  const auto other = std::make_shared<Counting>(1, 4);
  const auto remarked = ViewTokens(marked, 1, {3, 0, true, "remarked", {}}, other);
  ASSERT_TRUE(remarked->ReadMarks(0, absl::MakeSpan(marks)).ok());
  EXPECT_EQ(marks, (std::vector<uint8_t>{2, 3}));
  ASSERT_TRUE(other->ReadMarks(0, absl::MakeSpan(marks)).ok());
  EXPECT_EQ(marks, (std::vector<uint8_t>{0, 0}));
}

TEST(ReadInPiecesTest, CoversTheRangeAndStopsAtAnError) {
  const Counting source(0, 200'000);
  std::vector<int32_t> read;
  const auto append = [&](absl::Span<const int32_t> piece) {
    read.insert(read.end(), piece.begin(), piece.end());
    return read.size() > 150'000 ? absl::DataLossError("enough") : absl::OkStatus();
  };
  ASSERT_TRUE(ReadInPieces(source, 5, 140'005, append).ok());
  std::vector<int32_t> expected(140'000);
  std::iota(expected.begin(), expected.end(), 5);
  EXPECT_TRUE(read == expected);
  EXPECT_EQ(ReadInPieces(source, 0, 200'000, append).code(), absl::StatusCode::kDataLoss);
  EXPECT_LT(read.size(), 340'000u);
  EXPECT_EQ(ReadInPieces(source, 199'999, 200'001, append).code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace zeroth
