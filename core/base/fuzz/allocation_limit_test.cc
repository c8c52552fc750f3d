// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/fuzz/allocation_limit.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

// Escapes, so that no compiler removes the allocation.
void Hold(std::vector<std::unique_ptr<char[]>>& held, size_t bytes) {
  held.push_back(std::make_unique<char[]>(bytes));
}

TEST(AllocationLimitDeathTest, RefusesWhatIsTooMuchAtOnceOrInSum) {
  std::vector<std::unique_ptr<char[]>> held;
  held.reserve(100);
  EXPECT_DEATH(
      {
        AllocationLimit limit(1000, 10000, "input 7");
        Hold(held, 1001);
      },
      "input 7: asks at once for 1001 bytes, more than the 1000");
  EXPECT_DEATH(
      {
        AllocationLimit limit(1000, 10000, "input 8");
        for (int i = 0; i < 11; ++i) Hold(held, 1000);
      },
      "input 8: holds .* bytes, more than the 10000");
}

TEST(AllocationLimitTest, CountsWhatComesBackAndOnlyWhileItLives) {
  std::vector<std::unique_ptr<char[]>> held;
  held.reserve(100);
  {
    const AllocationLimit limit(1000, 10000, "input");
    for (int i = 0; i < 100; ++i) {
      Hold(held, 1000);
      held.pop_back();
    }
  }
  Hold(held, 100000);
  const AllocationLimit limit(1000, 10000, "input");
  Hold(held, 1000);
  EXPECT_EQ(held.size(), 2u);
}

}  // namespace
}  // namespace zeroth
