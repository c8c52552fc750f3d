// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/sum_of_squares/sum_of_squares.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

class SumOfSquaresSuite : public KernelsSuite {
 protected:
  Tensor NewSum();
  static std::vector<int64_t> Words(const Tensor& sum);
  // Returns ClipFactor's result for the squares of `values`.
  std::vector<float> NormAndFactor(const std::vector<float>& values, double scale, double max_norm);
  // Returns values with random mantissas and signs, exponent fields uniform on [lowest, highest],
  // and a tenth of zeros.
  std::vector<float> WildValues(int64_t count, int lowest_exponent, int highest_exponent);
};

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

std::vector<float> SumOfSquaresSuite::NormAndFactor(const std::vector<float>& values, double scale,
                                                    double max_norm) {
  const Tensor sum = NewSum();
  const int64_t count = static_cast<int64_t>(values.size());
  EXPECT_TRUE(kernels::AddSquares(kernels(), Upload({count}, values), sum).ok());
  const Tensor result = Unwritten({2});
  EXPECT_TRUE(kernels::ClipFactor(kernels(), sum, scale, max_norm, result).ok());
  return Download(result);
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
      for (const DType dtype : kElementTypes) {
        const std::vector<float> values = RoundTo(dtype, WildValues(n, lowest, highest));
        const Tensor sum = NewSum();
        ASSERT_TRUE(kernels::AddSquares(kernels(), Upload({n}, values, dtype), sum).ok());
        ASSERT_EQ(Words(sum), HostSum(values)) << n << " values of " << DTypeName(dtype)
                                               << ", exponents " << lowest << " to " << highest;
      }
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
      ASSERT_TRUE(kernels::AddSquares(kernels(), all.View(begin, {count}), sum).ok());
      begin += count;
    }
    // Adds the words, as an all-reduce over ranks does.
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

// More tensors of more types than one launch holds, empty ones among them.
TEST_P(SumOfSquaresSuite, ManyTensorsAreOneSum) {
  std::vector<Tensor> xs;
  std::vector<float> all;
  for (int i = 0; i < 700; ++i) {
    const DType dtype = i % 7 == 0 ? kElementTypes[RandomSize(0, 2)] : DType::kFloat32;
    const int64_t count = i == 300 ? 9000 : RandomSize(0, 40);
    const std::vector<float> values = RoundTo(dtype, WildValues(count, 90, 140));
    xs.push_back(Upload({count}, values, dtype));
    all.insert(all.end(), values.begin(), values.end());
  }
  const Tensor sum = NewSum();
  ASSERT_TRUE(kernels::AddSquares(kernels(), xs, sum).ok());
  EXPECT_EQ(Words(sum), HostSum(all));
  ASSERT_TRUE(kernels::AddSquares(kernels(), std::vector<Tensor>(), sum).ok());
  EXPECT_EQ(Words(sum), HostSum(all));
}

// A device's window follows recent exponents and holds 256 squares of the largest. Here are more of
// these, and then the exponents fall.
TEST_P(SumOfSquaresSuite, LongArraysNeitherOverflowNorLoseSmallSquares) {
  constexpr int64_t kTile = 512;  // as CUDA's
  constexpr int64_t kTiles = 128 * 20;
  std::vector<float> values(static_cast<size_t>(kTiles * kTile));
  for (int64_t i = 0; i < kTiles * kTile; ++i) {
    const int64_t round = i / kTile / 128;
    const auto top = static_cast<uint32_t>(round < 17 ? 150 : 150 - 7 * (round - 16));
    // One large number, and others whose low bits are all ones.
    const uint32_t exponent = i % kTile == 0 ? top : top - 24;
    values[static_cast<size_t>(i)] = std::bit_cast<float>(exponent << 23 | 0x7fffffu);
  }
  const Tensor sum = NewSum();
  ASSERT_TRUE(kernels::AddSquares(kernels(), Upload({kTiles * kTile}, values), sum).ok());
  EXPECT_EQ(Words(sum), HostSum(values));
}

TEST_P(SumOfSquaresSuite, DecodesToTheSumInDouble) {
  const std::vector<float> values = RandomNormal(20000, 0.01f);
  const Tensor sum = NewSum();
  ASSERT_TRUE(kernels::AddSquares(kernels(), Upload({20000}, values), sum).ok());
  long double expected = 0;
  for (const float value : values) expected += static_cast<long double>(value) * value;
  const double actual = ExactSum::Decode(Words(sum));
  EXPECT_NEAR(actual, static_cast<double>(expected), 1e-15 * actual);
}

TEST_P(SumOfSquaresSuite, HugeAndTinyDoNotOverflowOrVanish) {
  const Tensor sum = NewSum();
  ASSERT_TRUE(
      kernels::AddSquares(kernels(), Upload({3}, {FLT_MAX, FLT_MAX, FLT_TRUE_MIN}), sum).ok());
  const double max = FLT_MAX;
  EXPECT_EQ(ExactSum::Decode(Words(sum)), 2.0 * max * max);
  const Tensor tiny = NewSum();
  ASSERT_TRUE(
      kernels::AddSquares(kernels(), Upload({2}, {FLT_TRUE_MIN, -FLT_TRUE_MIN}), tiny).ok());
  EXPECT_EQ(ExactSum::Decode(Words(tiny)), 0x1p-297);
}

TEST_P(SumOfSquaresSuite, NanAndInfinityAreRemembered) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const DType dtype : kElementTypes) {
    std::vector<float> values = RoundTo(dtype, RandomNormal(100));
    values[40] = -infinity;
    const Tensor sum = NewSum();
    ASSERT_TRUE(kernels::AddSquares(kernels(), Upload({100}, values, dtype), sum).ok());
    EXPECT_EQ(ExactSum::Decode(Words(sum)), std::numeric_limits<double>::infinity());
    EXPECT_EQ(Words(sum), HostSum(values));
    ASSERT_TRUE(kernels::AddSquares(kernels(), Upload({1}, {std::nanf("")}, dtype), sum).ok());
    EXPECT_TRUE(std::isnan(ExactSum::Decode(Words(sum))));
  }
}

TEST_P(SumOfSquaresSuite, ClipFactorWithinOneRounding) {
  for (int i = 0; i < 40; ++i) {
    const std::vector<float> values = WildValues(RandomSize(0, 300), 100, 140);
    const double sum = ExactSum::Decode(HostSum(values));
    const double scale = i % 3 == 0 ? 1.0 : 1.0 / 3.0;
    const double norm = std::sqrt(sum) * scale;
    // On either side of the norm.
    const double max_norm = norm * std::ldexp(1.3, static_cast<int>(RandomSize(-3, 3))) + 1e-3;
    const std::vector<float> actual = NormAndFactor(values, scale, max_norm);
    const double factor = std::min(1.0, max_norm / (norm + 1e-6));
    ASSERT_NEAR(actual[0], norm, 1.0001 * HalfUlp(DType::kFloat32, norm));
    ASSERT_NEAR(actual[1], factor, 1.0001 * HalfUlp(DType::kFloat32, factor));
  }
}

TEST_P(SumOfSquaresSuite, ClipFactorAtTheEdges) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  using Pair = std::vector<float>;
  EXPECT_EQ(NormAndFactor({3, 4}, 1.0, 0.0), (Pair{5, 1}));  // not wanted
  EXPECT_EQ(NormAndFactor({3, 4}, 2.0, -1.0), (Pair{10, 1}));
  EXPECT_EQ(NormAndFactor({3, 4}, 1.0, 5.00001), (Pair{5, 1}));  // not needed
  EXPECT_EQ(NormAndFactor({}, 1.0, 1.0), (Pair{0, 1}));
  for (const double max_norm : {1.0, 0.0}) {
    const Pair with_infinity = NormAndFactor({3, infinity}, 1.0, max_norm);
    EXPECT_EQ(with_infinity[0], infinity);
    EXPECT_TRUE(std::isnan(with_infinity[1]));
    const Pair with_nan = NormAndFactor({3, nan}, 1.0, max_norm);
    EXPECT_TRUE(std::isnan(with_nan[0]));
    EXPECT_TRUE(std::isnan(with_nan[1]));
    // Too large for fp32, though no gradient is.
    EXPECT_TRUE(std::isnan(NormAndFactor({3e38f, 3e38f}, 1.0, max_norm)[1]));
  }
}

TEST_P(SumOfSquaresSuite, RefusesWhatDoesNotFit) {
  const Tensor x = Upload({2}, {1, 2});
  ExpectInvalid(kernels::AddSquares(kernels(), x, x),
                {"AddSquares", "sum is fp32, expected int64"});
  ExpectInvalid(kernels::AddSquares(kernels(), UploadTokens({1}, {1}), NewSum()),
                {"AddSquares", "x is int32, expected fp32, bf16 or fp16"});
  ExpectInvalid(
      kernels::AddSquares(kernels(), std::vector<Tensor>{x, UploadTokens({1}, {1})}, NewSum()),
      {"AddSquares", "xs[1] is int32, expected fp32, bf16 or fp16"});
  ExpectInvalid(kernels::ClipFactor(kernels(), x, 1.0, 1.0, x), {"ClipFactor", "sum is fp32"});
  ExpectInvalid(kernels::ClipFactor(kernels(), NewSum(), -1.0, 1.0, x),
                {"ClipFactor", "scale is -1"});
  ExpectInvalid(kernels::ClipFactor(kernels(), NewSum(), 1.0, std::nan(""), x),
                {"ClipFactor", "max_norm is NaN"});
  ExpectInvalid(kernels::ClipFactor(kernels(), NewSum(), 1.0, 1.0, Upload({1}, {0})),
                {"ClipFactor", "norm_and_factor is [1], expected [2]"});
}

INSTANTIATE_TEST_SUITE_P(Devices, SumOfSquaresSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
