// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/step_inputs.h"

#include <string>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

TEST(DeterministicBatchTest, PowersOfTwoThatDivideAreSupported) {
  for (const int64_t micro_batches : {1, 8, 12, 24, 7}) {
    for (int world_size = 1; world_size <= 32; ++world_size) {
      const bool power_of_two = (world_size & (world_size - 1)) == 0;
      const absl::StatusOr<int64_t> each = MicroBatchesPerRank(micro_batches, world_size);
      EXPECT_EQ(each.ok(), power_of_two && micro_batches % world_size == 0)
          << micro_batches << " over " << world_size;
      if (!each.ok()) continue;
      EXPECT_EQ(*each * world_size, micro_batches);
    }
  }
}

TEST(DeterministicBatchTest, ErrorsSayWhatWorks) {
  const std::string three(MicroBatchesPerRank(24, 3).status().message());
  EXPECT_NE(three.find("among 3 ranks"), std::string::npos) << three;
  EXPECT_NE(three.find("divides it: 1, 2, 4, 8"), std::string::npos) << three;
  EXPECT_EQ(three.find("16"), std::string::npos) << three;
  EXPECT_FALSE(MicroBatchesPerRank(0, 1).ok());
  EXPECT_FALSE(MicroBatchesPerRank(-8, 1).ok());
}

}  // namespace
}  // namespace zeroth
