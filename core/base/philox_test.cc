// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace zeroth {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<float> Normals(const CounterRng& rng, uint64_t begin, size_t count,
                           float stddev = 1.0f) {
  std::vector<float> out(count);
  rng.FillNormal(begin, stddev, absl::MakeSpan(out));
  return out;
}

TEST(CounterRngTest, StreamsDifferBySeedAndName) {
  const CounterRng rng(1, "h.0.attn.weight");
  EXPECT_EQ(rng.Bits64(5), CounterRng(1, "h.0.attn.weight").Bits64(5));
  EXPECT_NE(rng.Bits64(5), CounterRng(2, "h.0.attn.weight").Bits64(5));
  EXPECT_NE(rng.Bits64(5), CounterRng(uint64_t{1} << 32 | 1, "h.0.attn.weight").Bits64(5));
  EXPECT_NE(rng.Bits64(5), CounterRng(1, "h.1.attn.weight").Bits64(5));
  EXPECT_NE(rng.Bits64(5), CounterRng(1, "").Bits64(5));
  EXPECT_NE(rng.Bits64(5), rng.Bits64(6));
  EXPECT_NE(rng.Bits64(5), rng.Bits64(5 + (uint64_t{1} << 32)));
}

// Draws belong to the meaning of a seed: a change would silently change all initial weights.
TEST(CounterRngTest, DrawsAreStable) {
  const CounterRng rng(42, "wte.weight");
  EXPECT_EQ(rng.Bits(0), 0xf2ece8c8u);
  EXPECT_EQ(rng.Bits64(123456789012), 0xaa1f53c6c82e964cu);
  const std::vector<float> normals = Normals(rng, 3, 4, 0.02f);
  EXPECT_EQ(std::bit_cast<uint32_t>(normals[0]), 0x3c0aeac8u);
  EXPECT_EQ(std::bit_cast<uint32_t>(normals[1]), 0x3bc3305eu);
  EXPECT_EQ(std::bit_cast<uint32_t>(normals[2]), 0xbaf8272eu);
  EXPECT_EQ(std::bit_cast<uint32_t>(normals[3]), 0x3cc1c964u);
}

TEST(CounterRngTest, UniformIsInRangeAndEven) {
  const CounterRng rng(3, "uniform");
  constexpr int kDraws = 1 << 17;
  std::array<int, 16> histogram{};
  for (int i = 0; i < kDraws; ++i) {
    const float u = rng.Uniform(static_cast<uint64_t>(i));
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    ASSERT_EQ(u * 0x1p24f, std::floor(u * 0x1p24f));
    ++histogram[static_cast<size_t>(u * 16.0f)];
  }
  double chi_squared = 0;
  for (const int count : histogram) {
    const double expected = kDraws / 16.0;
    chi_squared += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_squared, 37.7);  // 15 degrees of freedom: exceeded once in a thousand seeds
}

TEST(FillNormalTest, AnyRangeGivesTheSameValues) {
  const CounterRng rng(9, "range");
  constexpr size_t kCount = 1000;
  for (const uint64_t base : {uint64_t{0}, (uint64_t{1} << 34) - 500, (uint64_t{1} << 62) + 1}) {
    const std::vector<float> whole = Normals(rng, base, kCount);
    for (size_t begin = 0; begin < kCount; begin += 37) {
      for (const size_t length : {0, 1, 2, 3, 4, 5, 63, 64, 65, 131}) {
        const size_t count = std::min(length, kCount - begin);
        const std::vector<float> part = Normals(rng, base + begin, count);
        ASSERT_TRUE(
            std::equal(part.begin(), part.end(), whole.begin() + static_cast<ptrdiff_t>(begin)))
            << base << " " << begin << " " << count;
      }
    }
  }
}

TEST(FillNormalTest, StddevScalesAndZeroIsZero) {
  const CounterRng rng(9, "scale");
  const std::vector<float> unit = Normals(rng, 0, 100);
  const std::vector<float> half = Normals(rng, 0, 100, 0.5f);
  const std::vector<float> none = Normals(rng, 0, 100, 0.0f);
  for (size_t i = 0; i < unit.size(); ++i) {
    EXPECT_EQ(half[i], 0.5f * unit[i]);
    EXPECT_EQ(none[i], 0.0f);
  }
}

// The stream's number, written a second time from its definition: FNV-1a, then the SplitMix64
// finalizer.
uint64_t StreamOf(const std::string& name) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : name) {
    hash ^= static_cast<uint8_t>(c);
    hash *= 1099511628211u;
  }
  hash ^= hash >> 30;
  hash *= 0xbf58476d1ce4e5b9u;
  hash ^= hash >> 27;
  hash *= 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

Words BlockOf(uint64_t seed, uint64_t stream, uint64_t block) {
  return Philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                     static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

TEST(CounterRngTest, BitsAreWordsOfTheIndexsBlock) {
  const uint64_t seed = 0x123456789abcdef0;
  const CounterRng rng(seed, "layer.weight");
  for (const uint64_t index : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 33, ~uint64_t{0}}) {
    const Words block = BlockOf(seed, StreamOf("layer.weight"), index);
    EXPECT_EQ(rng.Bits(index), block[0]);
    EXPECT_EQ(rng.Bits64(index), static_cast<uint64_t>(block[1]) << 32 | block[0]);
    EXPECT_EQ(rng.Uniform(index), static_cast<float>(block[0] >> 8) / 16777216.0f);
  }
}

TEST(FillNormalTest, IsBoxMullerOfTheBlocksWords) {
  const uint64_t seed = 0xfedcba9876543210;
  const uint64_t stream = StreamOf("reference") ^ 0x6e6f726d616c0001u;
  constexpr size_t kCount = 1 << 18;
  const std::vector<float> normals = Normals(CounterRng(seed, "reference"), 0, kCount);
  const double pi = std::acos(-1.0);
  for (size_t i = 0; i < kCount; i += 2) {
    const Words words = BlockOf(seed, stream, i / 4);
    const double u = (static_cast<double>(words[i % 4] >> 1) + 0.5) / 2147483648.0;
    const double angle = 2 * pi * static_cast<double>(words[i % 4 + 1]) / 4294967296.0;
    const double radius = std::sqrt(-2.0 * std::log(u));
    // Rounding u to a float moves the radius of draws near the origin most.
    const double tolerance = 1e-6 + std::min(1e-3, 0x1p-24 / radius);
    ASSERT_NEAR(static_cast<double>(normals[i]), radius * std::cos(angle), tolerance) << i;
    ASSERT_NEAR(static_cast<double>(normals[i + 1]), radius * std::sin(angle), tolerance) << i;
  }
}

TEST(FillNormalTest, Moments) {
  constexpr size_t kCount = 1 << 21;
  const std::vector<float> normals = Normals(CounterRng(5, "moments"), 12345, kCount);
  double sum[5] = {};
  double neighbours[5] = {};
  for (size_t i = 0; i < kCount; ++i) {
    const double z = static_cast<double>(normals[i]);
    double power = 1;
    for (double& s : sum) {
      s += power;
      power *= z;
    }
    for (size_t lag = 1; lag < 5 && lag <= i; ++lag) {
      neighbours[lag] += z * static_cast<double>(normals[i - lag]);
    }
  }
  const double n = kCount;
  // Five standard errors of each moment of a normal.
  EXPECT_NEAR(sum[1] / n, 0.0, 5 * std::sqrt(1 / n));
  EXPECT_NEAR(sum[2] / n, 1.0, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(sum[3] / n, 0.0, 5 * std::sqrt(15 / n));
  EXPECT_NEAR(sum[4] / n, 3.0, 5 * std::sqrt(96 / n));
  for (int lag = 1; lag < 5; ++lag) EXPECT_NEAR(neighbours[lag] / n, 0.0, 5 * std::sqrt(1 / n));
}

TEST(FillNormalTest, DistributionMatchesTheNormal) {
  constexpr size_t kCount = 1 << 19;
  std::vector<float> normals = Normals(CounterRng(6, "kolmogorov"), 0, kCount);
  std::sort(normals.begin(), normals.end());
  double distance = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double cdf = 0.5 * std::erfc(-static_cast<double>(normals[i]) / std::sqrt(2.0));
    distance = std::max({distance, std::abs(cdf - static_cast<double>(i) / kCount),
                         std::abs(cdf - static_cast<double>(i + 1) / kCount)});
  }
  // Kolmogorov-Smirnov: exceeded once in a thousand seeds.
  EXPECT_LT(distance, 1.95 / std::sqrt(static_cast<double>(kCount)));
  EXPECT_GT(normals.back(), 4.0f);
  EXPECT_LT(normals.back(), 6.7f);
  EXPECT_GT(normals.front(), -6.7f);
}

}  // namespace
}  // namespace zeroth
