// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/testing/sum_of_squares_suite.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"

#include "zeroth/kernels/exact_sum.h"

namespace zeroth::testing {
namespace {

std::vector<int64_t> HostSum(const std::vector<float>& values) {
  std::vector<int64_t> words(ExactSum::kWords);
  for (const float value : values) ExactSum::AddSquare(value, absl::MakeSpan(words));
  return words;
}

}  // namespace

Tensor SumOfSquaresSuite::NewSum() {
  const absl::StatusOr<Tensor> sum =
      Tensor::Zeros(device(), {ExactSum::kWords}, DType::kInt64, MemoryCategory::kWorkspace);
  EXPECT_TRUE(sum.ok());
  return *sum;
}

std::vector<int64_t> SumOfSquaresSuite::Words(const Tensor& sum) {
  const absl::StatusOr<std::vector<int64_t>> words = sum.ToHost<int64_t>();
  EXPECT_TRUE(words.ok());
  return *words;
}

// Bit patterns with every exponent, subnormals and zeros included.
std::vector<float> SumOfSquaresSuite::WildValues(int64_t count, int lowest_exponent,
                                                 int highest_exponent) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    const uint32_t exponent = static_cast<uint32_t>(RandomSize(lowest_exponent, highest_exponent));
    const uint32_t sign_and_mantissa = static_cast<uint32_t>(random()()) & 0x807fffffu;
    value = RandomSize(0, 9) == 0 ? 0.0f : std::bit_cast<float>(exponent << 23 | sign_and_mantissa);
  }
  return values;
}

// Ranges of exponents that need from one word to all of them.
TEST_P(SumOfSquaresSuite, EqualsTheHostSumInEveryWord) {
  const std::vector<std::pair<int, int>> exponents = {
      {127, 127}, {120, 127}, {100, 140}, {80, 140}, {0, 254},
      {0, 3},     {0, 0},     {250, 254}, {60, 110}, {1, 30}};
  for (const auto& [lowest, highest] : exponents) {
    for (const int64_t n : {0, 1, 7, 8, 100, 1001, 9000}) {
      const std::vector<float> values = WildValues(n, lowest, highest);
      const Tensor sum = NewSum();
      ASSERT_TRUE(kernels().AddSquares(Upload({n}, values), sum).ok());
      ASSERT_EQ(Words(sum), HostSum(values))
          << n << " values, exponents " << lowest << " to " << highest;
    }
  }
}

TEST_P(SumOfSquaresSuite, NeitherOrderNorCutsShow) {
  constexpr int64_t kCount = 5000;
  std::vector<float> values = WildValues(kCount, 0, 254);
  std::vector<float> gradients = RandomNormal(kCount, 1e-3f);
  values.insert(values.end(), gradients.begin(), gradients.end());
  const std::vector<int64_t> expected = HostSum(values);
  for (int i = 0; i < 8; ++i) {
    std::shuffle(values.begin(), values.end(), random());
    const int64_t total = static_cast<int64_t>(values.size());
    const Tensor all = Upload({total}, values);
    std::vector<Tensor> sums = {NewSum(), NewSum(), NewSum()};
    for (int64_t begin = 0; begin < total;) {
      const int64_t count = std::min(total - begin, RandomSize(1, 3000));
      const Tensor& sum = sums[static_cast<size_t>(RandomSize(0, 2))];
      ASSERT_TRUE(kernels().AddSquares(all.View(begin, {count}), sum).ok());
      begin += count;
    }
    // As an all-reduce adds the words of ranks.
    std::vector<int64_t> words(ExactSum::kWords);
    for (const Tensor& sum : sums) {
      const std::vector<int64_t> part = Words(sum);
      for (size_t w = 0; w < words.size(); ++w) words[w] += part[w];
    }
    EXPECT_EQ(ExactSum::Decode(words), ExactSum::Decode(expected));
    ExactSum::Normalize(absl::MakeSpan(words));
    EXPECT_EQ(words, expected);
  }
}

TEST_P(SumOfSquaresSuite, DecodesToTheSumInDouble) {
  const std::vector<float> values = RandomNormal(20000, 0.01f);
  const Tensor sum = NewSum();
  ASSERT_TRUE(kernels().AddSquares(Upload({20000}, values), sum).ok());
  long double expected = 0;
  for (const float value : values) expected += static_cast<long double>(value) * value;
  const double actual = ExactSum::Decode(Words(sum));
  EXPECT_NEAR(actual, static_cast<double>(expected), 1e-15 * actual);
}

TEST_P(SumOfSquaresSuite, HugeAndTinyDoNotOverflowOrVanish) {
  const Tensor sum = NewSum();
  ASSERT_TRUE(kernels().AddSquares(Upload({3}, {FLT_MAX, FLT_MAX, FLT_TRUE_MIN}), sum).ok());
  const double max = FLT_MAX;
  EXPECT_EQ(ExactSum::Decode(Words(sum)), 2.0 * max * max);
  const Tensor tiny = NewSum();
  ASSERT_TRUE(kernels().AddSquares(Upload({2}, {FLT_TRUE_MIN, -FLT_TRUE_MIN}), tiny).ok());
  EXPECT_EQ(ExactSum::Decode(Words(tiny)), 0x1p-297);
}

TEST_P(SumOfSquaresSuite, NanAndInfinityAreRemembered) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = RandomNormal(100);
  values[40] = -infinity;
  const Tensor sum = NewSum();
  ASSERT_TRUE(kernels().AddSquares(Upload({100}, values), sum).ok());
  EXPECT_EQ(ExactSum::Decode(Words(sum)), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Words(sum), HostSum(values));
  ASSERT_TRUE(kernels().AddSquares(Upload({1}, {std::nanf("")}), sum).ok());
  EXPECT_TRUE(std::isnan(ExactSum::Decode(Words(sum))));
}

TEST_P(SumOfSquaresSuite, RefusesWhatDoesNotFit) {
  const Tensor x = Upload({2}, {1, 2});
  ExpectInvalid(kernels().AddSquares(x, x), {"AddSquares", "sum is fp32, expected int64"});
}

}  // namespace zeroth::testing
