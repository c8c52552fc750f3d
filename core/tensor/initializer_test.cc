// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/initializer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace zeroth {
namespace {

std::vector<float> Filled(const Initializer& initializer, uint64_t seed, const std::string& name,
                          int64_t begin, size_t count) {
  std::vector<float> out(count, -7.0f);
  initializer.Fill(seed, name, begin, absl::MakeSpan(out));
  return out;
}

TEST(InitializerTest, Constants) {
  EXPECT_EQ(Filled(Initializer::Zeros(), 1, "b", 5, 3), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(Filled(Initializer::Ones(), 1, "b", 5, 3), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(Filled(Initializer::Constant(-2.5f), 1, "b", 0, 2), (std::vector<float>{-2.5f, -2.5f}));
  EXPECT_TRUE(Filled(Initializer::Ones(), 1, "b", 0, 0).empty());
}

// Each of N owners fills its piece; together they equal one owner's result.
TEST(InitializerTest, ShardsEqualTheWholeAtEveryWorldSize) {
  constexpr size_t kCount = 1003;
  const Initializer normal = Initializer::Normal(0.02f);
  const std::vector<float> whole = Filled(normal, 42, "wte.weight", 0, kCount);
  for (const size_t owners : {1, 2, 3, 5, 8, 64}) {
    const size_t piece = (kCount + owners - 1) / owners;
    std::vector<float> joined;
    for (size_t begin = 0; begin < kCount; begin += piece) {
      const size_t count = std::min(piece, kCount - begin);
      const auto part = Filled(normal, 42, "wte.weight", static_cast<int64_t>(begin), count);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, whole) << owners;
  }
}

TEST(InitializerTest, NormalDependsOnSeedAndNameAndHasItsStddev) {
  constexpr size_t kCount = 100000;
  const Initializer normal = Initializer::Normal(0.02f);
  const auto values = Filled(normal, 42, "w", 0, kCount);
  EXPECT_NE(values, Filled(normal, 43, "w", 0, kCount));
  EXPECT_NE(values, Filled(normal, 42, "v", 0, kCount));
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(sum / kCount, 0.0, 5 * 0.02 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount / 0.0004, 1.0, 5 * std::sqrt(2.0 / kCount));
}

TEST(InitializerDeathTest, NegativeBeginAborts) {
  EXPECT_DEATH(Filled(Initializer::Zeros(), 1, "b", -1, 1), "invariant violated");
}

}  // namespace
}  // namespace zeroth
