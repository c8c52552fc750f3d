// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/attention_plan.h"

#include <string>

#include "gtest/gtest.h"

#include "zeroth/kernels/attention/attention.h"

namespace zeroth::cuda {
namespace {

AttentionPlan PlanOf(const AttentionShape& shape, DType dtype = DType::kBFloat16,
                     bool aligned = true) {
  const absl::StatusOr<AttentionPlan> plan = PlanAttention(shape, dtype, aligned);
  EXPECT_EQ(plan.status(), absl::OkStatus());
  return plan.value_or(AttentionPlan());
}

TEST(AttentionPlanTest, TensorCoresTakeWhatTheyCan) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const auto& [head_dim, width] :
         {std::pair{8, 64}, {64, 64}, {72, 96}, {80, 96}, {96, 96}, {104, 128}, {128, 128}}) {
      const AttentionPlan plan = PlanOf({1, 100, 2, 1, head_dim}, dtype);
      EXPECT_EQ(plan.path, AttentionPath::kMma) << head_dim;
      EXPECT_EQ(plan.width, width) << head_dim;
    }
  }
}

TEST(AttentionPlanTest, TheRestIsPlain) {
  EXPECT_EQ(PlanOf({1, 100, 2, 1, 64}, DType::kFloat32).path, AttentionPath::kPlain);
  EXPECT_EQ(PlanOf({1, 100, 2, 1, 64}, DType::kBFloat16, false).path, AttentionPath::kPlain);
  EXPECT_EQ(PlanOf({1, 100, 2, 1, 60}).path, AttentionPath::kPlain);
  EXPECT_EQ(PlanOf({1, 100, 2, 1, 136}).path, AttentionPath::kPlain);
}

// The least that a block of each supported device may ask for is 99 KiB (8.6, 8.9, 12.0); 8.0 has
// 163, 9.0 and 10.0 have 227.
TEST(AttentionPlanTest, EveryBlockFitsEveryDevice) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int head_dim = 1; head_dim <= 300; ++head_dim) {
      const AttentionPlan plan = PlanOf({2, 1000, 4, 2, head_dim}, dtype);
      for (const LaunchShape& shape : {plan.forward, plan.backward_keys, plan.backward_queries}) {
        EXPECT_EQ(CheckLaunchShape("attention", shape, kAttentionSharedLimit), absl::OkStatus());
        // Two blocks fit on an SM of 163 KiB, to hide each other's waits for memory.
        if (plan.path == AttentionPath::kMma) {
          EXPECT_LE(2 * (shape.dynamic_shared_bytes + 1024), size_t{164} << 10) << head_dim;
        }
      }
    }
  }
}

TEST(AttentionPlanTest, BlocksCoverTheSequence) {
  const auto blocks = [](const LaunchShape& shape) { return shape.grid.x; };
  for (const int64_t seq : {1, 63, 64, 65, 127, 128, 129, 1024}) {
    const AttentionShape shape{3, seq, 6, 2, 64};
    const AttentionPlan plan = PlanOf(shape);
    const auto tiles = [&](int rows) { return static_cast<unsigned>((seq + rows - 1) / rows); };
    EXPECT_EQ(blocks(plan.forward), tiles(MmaForwardTile<64>::kRows) * 3 * 6);
    EXPECT_EQ(blocks(plan.backward_queries), tiles(MmaBackwardTile<64>::kRows) * 3 * 6);
    EXPECT_EQ(blocks(plan.backward_keys), tiles(MmaBackwardTile<64>::kRows) * 3 * 2);
  }
  const AttentionPlan wide = PlanOf({3, 65, 6, 2, 257}, DType::kFloat32);
  EXPECT_EQ(wide.forward.grid.x, 2u * 3 * 6);
  EXPECT_EQ(wide.forward.grid.y, 5u);
  EXPECT_EQ(wide.backward_keys.grid.x, 2u * 3 * 2);
}

TEST(AttentionPlanTest, CappedScoresArePlain) {
  AttentionShape shape{3, 128, 6, 2, 64};
  shape.scale = 0.25f;
  EXPECT_EQ(PlanOf(shape).path, AttentionPath::kMma);
  shape.cap = 50.0f;
  EXPECT_EQ(PlanOf(shape).path, AttentionPath::kPlain);
}

TEST(AttentionPlanTest, RefusesWhatCannotBeCounted) {
  const absl::Status too_long =
      PlanAttention({1, int64_t{1} << 31, 1, 1, 64}, DType::kBFloat16, true).status();
  EXPECT_TRUE(absl::IsInvalidArgument(too_long)) << too_long;
  EXPECT_NE(std::string(too_long.message()).find("2147483648"), std::string::npos) << too_long;
  const absl::Status too_many =
      PlanAttention({int64_t{1} << 27, 65, 16, 16, 64}, DType::kBFloat16, true).status();
  EXPECT_TRUE(absl::IsInvalidArgument(too_many)) << too_many;
  EXPECT_NE(std::string(too_many.message()).find("batch 134217728"), std::string::npos) << too_many;
}

}  // namespace
}  // namespace zeroth::cuda
