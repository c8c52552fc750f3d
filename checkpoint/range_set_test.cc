// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/checkpoint/tensor_file_writer.h"

namespace zeroth {
namespace {

using Range = std::pair<int64_t, int64_t>;

TEST(RangeSetTest, FindsTheGap) {
  RangeSet set;
  EXPECT_EQ(set.FirstGap(0), std::nullopt);
  EXPECT_EQ(set.FirstGap(10), Range(0, 10));
  EXPECT_TRUE(set.Insert(4, 6));
  EXPECT_EQ(set.FirstGap(10), Range(0, 4));
  EXPECT_TRUE(set.Insert(0, 4));
  EXPECT_EQ(set.FirstGap(10), Range(6, 10));
  EXPECT_FALSE(set.Insert(5, 7));
  EXPECT_TRUE(set.Insert(6, 10));
  EXPECT_EQ(set.FirstGap(10), std::nullopt);
}

// Against one flag per integer.
TEST(RangeSetTest, AgreesWithFlags) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t size = 1 + static_cast<int64_t>(random() % 40);
    std::vector<bool> flags(static_cast<size_t>(size));
    RangeSet set;
    for (int i = 0; i < 60; ++i) {
      int64_t begin = static_cast<int64_t>(random() % static_cast<uint64_t>(size + 1));
      int64_t end = std::min<int64_t>(size, begin + static_cast<int64_t>(random() % 6));
      const auto first = flags.begin() + begin;
      const auto last = flags.begin() + end;
      const bool is_free = std::find(first, last, true) == last;
      ASSERT_EQ(set.Insert(begin, end), is_free);
      if (is_free) std::fill(first, last, true);

      const auto gap_begin = std::find(flags.begin(), flags.end(), false);
      const auto gap_end = std::find(gap_begin, flags.end(), true);
      if (gap_begin == flags.end()) {
        ASSERT_EQ(set.FirstGap(size), std::nullopt);
      } else {
        ASSERT_EQ(set.FirstGap(size), Range(gap_begin - flags.begin(), gap_end - flags.begin()));
      }
    }
  }
}

}  // namespace
}  // namespace zeroth
