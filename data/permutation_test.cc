// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <array>
#include <map>
#include <set>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/data/mixture.h"

namespace zeroth {
namespace {

std::vector<int64_t> All(int64_t size, uint64_t seed, uint64_t epoch) {
  const Permutation permutation(size, seed, epoch);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < size; ++i) places.push_back(permutation(i));
  return places;
}

TEST(PermutationTest, IsABijectionOfEverySize) {
  for (int64_t size = 1; size <= 300; ++size) {
    const std::vector<int64_t> places = All(size, 42, static_cast<uint64_t>(size) % 3);
    const std::set<int64_t> distinct(places.begin(), places.end());
    ASSERT_EQ(static_cast<int64_t>(distinct.size()), size);
    ASSERT_EQ(*distinct.begin(), 0);
    ASSERT_EQ(*distinct.rbegin(), size - 1);
  }
}

TEST(PermutationTest, DependsOnSeedAndEpoch) {
  const std::vector<int64_t> places = All(1000, 1, 0);
  EXPECT_EQ(All(1000, 1, 0), places);
  for (const auto& [seed, epoch] :
       std::map<uint64_t, uint64_t>{{1, 1}, {2, 0}, {(1ull << 32) + 1, 0}, {3, 1ull << 32}}) {
    const std::vector<int64_t> others = All(1000, seed, epoch);
    int same = 0;
    for (size_t i = 0; i < others.size(); ++i) same += others[i] == places[i];
    // A random permutation has one fixed point on average; more than ten happen once in 10^8 times.
    EXPECT_LE(same, 10) << seed << " " << epoch;
  }
}

TEST(PermutationTest, SpreadsEvenly) {
  // Each of six places takes each of six indices equally often over seeds.
  std::array<std::array<int, 6>, 6> count{};
  constexpr int kSeeds = 6000;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::vector<int64_t> places = All(6, seed, 0);
    for (size_t i = 0; i < 6; ++i) ++count[i][static_cast<size_t>(places[i])];
  }
  for (const auto& row : count) {
    // Standard deviation 29; seven of them.
    for (const int times : row) EXPECT_NEAR(times, kSeeds / 6, 200);
  }
}

TEST(PermutationTest, WorksAtTheLargestSize) {
  const int64_t size = int64_t{1} << 62;
  const Permutation permutation(size, 5, 6);
  std::set<int64_t> places;
  for (int64_t i = 0; i < 100; ++i) places.insert(permutation(size - 1 - i));
  EXPECT_EQ(places.size(), 100u);
  EXPECT_GE(*places.begin(), 0);
  EXPECT_LT(*places.rbegin(), size);
}

}  // namespace
}  // namespace zeroth
