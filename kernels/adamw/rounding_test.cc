// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/adamw/rounding.h"

#include <array>
#include <cstdint>
#include <set>
#include <utility>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

using Words = std::array<uint16_t, 3>;

Words WordsOf(const RoundingKey& key, uint64_t stream, int64_t element) {
  const RoundingBits bits = RoundingBitsOf(key, stream, element);
  return {bits.first_moment, bits.second_moment, bits.param};
}

TEST(RoundingTest, KeysDependOnSeedAndStepAlone) {
  std::set<std::pair<uint32_t, uint32_t>> keys;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}}) {
    for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{1} << 32}) {
      const RoundingKey key = MakeRoundingKey(seed, step);
      EXPECT_TRUE(keys.insert({key.low, key.high}).second) << seed << " " << step;
      const RoundingKey again = MakeRoundingKey(seed, step);
      EXPECT_EQ(again.low, key.low);
      EXPECT_EQ(again.high, key.high);
    }
  }
}

// Neighbours, which share a block of the generator, and elements 2^33 apart, whose low words are
// equal, have different draws, and so do the three of one element.
TEST(RoundingTest, EveryElementAndStreamHasItsOwnDraws) {
  const RoundingKey key = MakeRoundingKey(7, 3);
  std::set<Words> seen;
  for (const uint64_t stream : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
    for (const int64_t first : {int64_t{0}, int64_t{1} << 33}) {
      for (int64_t i = 0; i < 100; ++i) {
        const Words words = WordsOf(key, stream, first + i);
        EXPECT_TRUE(seen.insert(words).second) << stream << " " << first + i;
      }
    }
  }
  EXPECT_NE(WordsOf(key, 0, 0), WordsOf(MakeRoundingKey(7, 4), 0, 0));
}

TEST(RoundingTest, EveryBitIsSetHalfTheTime) {
  constexpr int kDraws = 20000;
  const RoundingKey key = MakeRoundingKey(1, 1);
  std::array<std::array<int, 16>, 3> ones{};
  for (int64_t i = 0; i < kDraws; ++i) {
    const Words words = WordsOf(key, 5, i);
    for (size_t word = 0; word < 3; ++word) {
      for (size_t bit = 0; bit < 16; ++bit) ones[word][bit] += (words[word] >> bit) & 1;
    }
  }
  // Six standard deviations of kDraws fair coins.
  for (const auto& word : ones) {
    for (const int count : word) EXPECT_NEAR(count, kDraws / 2, 6 * 71);
  }
}

}  // namespace
}  // namespace zeroth
