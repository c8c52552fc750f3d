// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/testing/tree_sum.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

// Returns the most sums that wait while `n` sums arrive. Each is merged with the last waiting one
// while both have equally many leaves.
int LevelsByTrial(int64_t n) {
  std::vector<int64_t> waiting;
  size_t most = 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t leaves = 1;
    while (!waiting.empty() && waiting.back() == leaves) {
      leaves += waiting.back();
      waiting.pop_back();
    }
    waiting.push_back(leaves);
    most = std::max(most, waiting.size());
  }
  return static_cast<int>(most);
}

TEST(TreeSumTest, LevelsAreThoseThatATrialTakes) {
  for (int64_t n = 1; n <= 1000; ++n) {
    EXPECT_EQ(TreeSumLevels(n), LevelsByTrial(n)) << n;
    // The flag's help promises this bound.
    EXPECT_LE(int64_t{1} << (TreeSumLevels(n) - 1), n) << n;
  }
}

}  // namespace
}  // namespace zeroth
