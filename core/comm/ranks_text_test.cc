// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/ranks_text.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

TEST(RanksTextTest, ThreeConsecutiveRanksAreARange) {
  EXPECT_EQ(RankRanges({}), "");
  EXPECT_EQ(RankRanges({5}), "5");
  EXPECT_EQ(RankRanges({0, 1}), "0, 1");
  EXPECT_EQ(RankRanges({0, 1, 2}), "0-2");
  EXPECT_EQ(RankRanges({0, 1, 2, 3, 8, 9, 16, 17, 18}), "0-3, 8, 9, 16-18");
}

// The order of a group's ranks is part of its name.
TEST(RanksTextTest, TheOrderIsKept) {
  EXPECT_EQ(RankRanges({2, 1, 0}), "2, 1, 0");
  EXPECT_EQ(RankRanges({4, 5, 6, 0, 1, 2}), "4-6, 0-2");
  EXPECT_EQ(RankRanges({1, 1, 2}), "1, 1, 2");
}

TEST(RanksTextTest, AWholeWorldIsShort) {
  std::vector<int> ranks(10'000);
  std::iota(ranks.begin(), ranks.end(), 0);
  EXPECT_EQ(RanksText(ranks), "ranks 0-9999");
  EXPECT_EQ(RanksText({7}), "rank 7");
  EXPECT_EQ(RanksText({1, 3}), "ranks 1, 3");
}

}  // namespace
}  // namespace zeroth
