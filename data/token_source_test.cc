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
      : first_(first), size_(size), row_length_(row_length), status_(std::move(status)) {}
  int64_t size() const override { return size_; }
  int64_t row_length() const override { return row_length_; }
  const std::string& description() const override { return description_; }
  absl::Status Read(int64_t begin, absl::Span<int32_t> out) const override {
    if (absl::Status range = CheckTokenRange(*this, begin, out.size()); !range.ok()) return range;
    std::iota(out.begin(), out.end(), first_ + static_cast<int32_t>(begin));
    return status_;
  }

 private:
  int32_t first_;
  int64_t size_;
  int64_t row_length_;
  absl::Status status_;
  std::string description_ = "counting from " + std::to_string(first_);
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

}  // namespace
}  // namespace zeroth
