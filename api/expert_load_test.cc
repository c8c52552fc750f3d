// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/expert_load.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

TEST(ExpertLoadTest, TheWorstLayerCounts) {
  // Means of 2 and 5; the most used experts have 3 and 9 tokens.
  const std::optional<ExpertLoad> load = LoadOf({4, 3}, {3, 2, 0, 3, 9, 0, 6});
  ASSERT_TRUE(load.has_value());
  EXPECT_DOUBLE_EQ(load->largest, 1.8);
  EXPECT_DOUBLE_EQ(load->unused, 2.0 / 7);
}

TEST(ExpertLoadTest, TheUnitOfCountsDoesNotMatter) {
  const std::optional<ExpertLoad> load = LoadOf({2}, {0.25f, 0.75f});
  ASSERT_TRUE(load.has_value());
  EXPECT_DOUBLE_EQ(load->largest, 1.5);
  EXPECT_DOUBLE_EQ(load->unused, 0);
}

TEST(ExpertLoadTest, WithoutExpertsOrTokensThereIsNone) {
  EXPECT_FALSE(LoadOf({}, {}).has_value());
  EXPECT_FALSE(LoadOf({2, 2}, {1, 1, 0, 0}).has_value());
}

}  // namespace
}  // namespace zeroth
