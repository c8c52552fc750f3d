// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "zeroth/kernels/sum_of_squares/sum_of_squares.h"

namespace zeroth {
namespace {

std::vector<int64_t> Zero() { return std::vector<int64_t>(ExactSum::kWords); }

// Adds `count` times 2^exponent to the words; the exponent is at least kMinExponent.
void AddPower(int exponent, int64_t count, std::vector<int64_t>& words) {
  const int bit = exponent - ExactSum::kMinExponent;
  words[static_cast<size_t>(bit / ExactSum::kBinBits)] += count << (bit % ExactSum::kBinBits);
}

TEST(ExactSumTest, ZeroIsZero) { EXPECT_EQ(ExactSum::Decode(Zero()), 0.0); }

TEST(ExactSumTest, SingleSquaresAreExact) {
  std::mt19937 random(1);
  std::vector<float> values = {1.0f, -3.0f, FLT_MAX, FLT_MIN, FLT_TRUE_MIN, 0x1.fffffep-127f, 0.1f};
  for (int i = 0; i < 2000; ++i) {
    values.push_back(
        std::ldexp(static_cast<float>(random()), static_cast<int>(random() % 250) - 160));
  }
  for (const float value : values) {
    std::vector<int64_t> words = Zero();
    ExactSum::AddSquare(value, absl::MakeSpan(words));
    EXPECT_EQ(ExactSum::Decode(words), static_cast<double>(value) * value) << value;
  }
}

TEST(ExactSumTest, IntegerSquaresRoundToNearest) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    std::vector<int64_t> words = Zero();
    uint64_t expected = 0;
    for (int k = 0; k < 1000; ++k) {
      const uint64_t value = random() >> 40;  // below 2^24, so that it is a float
      expected += value * value;
      ExactSum::AddSquare(static_cast<float>(value), absl::MakeSpan(words));
    }
    // The conversion of an integer rounds to nearest even, too.
    EXPECT_EQ(ExactSum::Decode(words), static_cast<double>(expected));
  }
}

TEST(ExactSumTest, TiesGoToEvenUnlessSomethingLiesBelow) {
  for (const int shift : {0, 1, 25, 26, 27, 100, -200}) {
    const double unit = std::ldexp(1.0, shift);
    std::vector<int64_t> words = Zero();
    AddPower(53 + shift, 1, words);
    AddPower(shift, 1, words);
    EXPECT_EQ(ExactSum::Decode(words), 0x1p53 * unit);  // 2^53 + 1: tie, even below
    AddPower(ExactSum::kMinExponent, 1, words);
    EXPECT_EQ(ExactSum::Decode(words), (0x1p53 + 2) * unit);  // a grain above the tie
    AddPower(ExactSum::kMinExponent, -1, words);
    AddPower(shift, 2, words);
    EXPECT_EQ(ExactSum::Decode(words), (0x1p53 + 4) * unit);  // 2^53 + 3: tie, even above
    AddPower(ExactSum::kMinExponent, -1, words);
    EXPECT_EQ(ExactSum::Decode(words), (0x1p53 + 2) * unit);  // a grain below the tie
  }
}

TEST(ExactSumTest, WordsOfAnySignDecodeTheSame) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    std::vector<int64_t> words = Zero();
    for (int k = 0; k < 50; ++k) {
      ExactSum::AddSquare(
          std::ldexp(static_cast<float>(random() >> 40), static_cast<int>(random() % 80) - 60),
          absl::MakeSpan(words));
    }
    const double expected = ExactSum::Decode(words);
    // Borrow from a word to the one below: another representation of the same number.
    std::vector<int64_t> other = words;
    for (int k = 0; k < 20; ++k) {
      const size_t word = 1 + random() % (ExactSum::kBins - 1);
      const int64_t borrowed = static_cast<int64_t>(random() % 1000000) - 500000;
      other[word] -= borrowed;
      other[word - 1] += borrowed << ExactSum::kBinBits;
    }
    EXPECT_EQ(ExactSum::Decode(other), expected);
    ExactSum::Normalize(absl::MakeSpan(other));
    EXPECT_EQ(other, words);
  }
}

TEST(ExactSumTest, NegativeSumsDecode) {
  std::vector<int64_t> words = Zero();
  AddPower(3, -5, words);
  AddPower(0, 1, words);
  EXPECT_EQ(ExactSum::Decode(words), -39.0);
}

TEST(ExactSumTest, NanBeatsInfinityBeatsNumbers) {
  std::vector<int64_t> words = Zero();
  ExactSum::AddSquare(1.0f, absl::MakeSpan(words));
  ExactSum::AddSquare(-std::numeric_limits<float>::infinity(), absl::MakeSpan(words));
  EXPECT_EQ(ExactSum::Decode(words), std::numeric_limits<double>::infinity());
  ExactSum::AddSquare(std::numeric_limits<float>::quiet_NaN(), absl::MakeSpan(words));
  EXPECT_TRUE(std::isnan(ExactSum::Decode(words)));
}

}  // namespace
}  // namespace zeroth
