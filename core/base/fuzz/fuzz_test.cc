// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/fuzz/damage.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"

namespace zeroth {

void TestFuzzTarget(const FuzzTarget& target) {
  const std::vector<std::string> seeds = target.seeds();
  ASSERT_FALSE(seeds.empty());
  for (size_t i = 0; i < seeds.size(); ++i) {
    EXPECT_TRUE(RunFuzzTarget(target, BytesOfText(seeds[i]), absl::StrCat("seed ", i)));
  }
  std::mt19937_64 random(20261121);
  constexpr int kRounds = 30'000;
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    // Prefers small seeds: damage hits their structure more often, and they are faster to read.
    std::string file = seeds[std::min(random() % seeds.size(), random() % seeds.size())];
    Damage(random, &file);
    accepted += RunFuzzTarget(target, BytesOfText(file), absl::StrCat("round ", round)) ? 1 : 0;
  }
  testing::Test::RecordProperty("accepted", accepted);
  // Some files are accepted and some refused: neither the damage nor the checks are idle.
  EXPECT_GT(accepted, kRounds / 1000);
  EXPECT_LT(accepted, kRounds * 99 / 100);
}

}  // namespace zeroth
