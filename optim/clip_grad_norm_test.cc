// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/clip_grad_norm.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/optim/testing/ranks.h"

namespace zeroth {
namespace {

using testing::AllLayouts;
using testing::Layout;
using testing::Rank;

std::vector<float> Draw(const char* name, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  CounterRng(5, name).FillNormal(0, 1.0f, absl::MakeSpan(values));
  // Magnitudes far apart, where a sum in float would depend on its order.
  for (size_t i = 0; i < values.size(); ++i)
    values[i] *= std::pow(10.0f, static_cast<float>(i % 9) - 4);
  return values;
}

struct ClipResult {
  float norm = 0;
  float scale = 0;
};

ClipResult NormUnder(const Layout& layout, const std::vector<float>& matrix,
                     const std::vector<float>& vector, double max_norm) {
  ClipResult result;
  const absl::Status status =
      RunLocalRanks(layout.world_size, [&](Communicator& world) -> absl::Status {
        Rank rank(world, Shape({static_cast<int64_t>(matrix.size()), 1}),
                  Shape({static_cast<int64_t>(vector.size())}));
        ZEROTH_RETURN_IF_ERROR(rank.Open(layout));
        ZEROTH_RETURN_IF_ERROR(rank.Backward(matrix, vector));
        const int64_t before =
            rank.sharding->stats().collectives[static_cast<size_t>(CollectiveOp::kAllReduce)].calls;
        ZEROTH_ASSIGN_OR_RETURN(const Tensor made,
                                GradNormAndScale(*rank.sharding, *rank.kernels, max_norm));
        ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> mine, made.ToHost<float>());
        const int64_t calls = rank.sharding->stats()
                                  .collectives[static_cast<size_t>(CollectiveOp::kAllReduce)]
                                  .calls -
                              before;
        EXPECT_EQ(calls, rank.sharding->units()[0]->mesh().owner_count() > 1 ? 1 : 0);
        if (world.rank() == 0) result = {mine[0], mine[1]};
        return rank.sharding->scheduler().EndStep();
      });
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

TEST(ClipGradNormTest, TheSameBitsWhereverShardsBegin) {
  const std::vector<float> matrix = Draw("m", 203);
  const std::vector<float> vector = Draw("v", 7);  // replicated where min_shard_numel is 8
  double reference = 0;
  for (const std::vector<float>* values : {&matrix, &vector}) {
    for (const float value : *values) reference += static_cast<double>(value) * value;
  }
  reference = std::sqrt(reference);
  const ClipResult whole = NormUnder({"no_shard", 1, 0, 0}, matrix, vector, 1.0);
  EXPECT_EQ(whole.norm, static_cast<float>(reference));
  EXPECT_EQ(whole.scale, static_cast<float>(1.0 / (reference + 1e-6)));
  for (const Layout& layout : AllLayouts()) {
    if (layout.world_size == 3) continue;  // the mean over three ranks rounds
    const ClipResult other = NormUnder(layout, matrix, vector, 1.0);
    EXPECT_EQ(other.norm, whole.norm) << layout.strategy << " at " << layout.world_size;
    EXPECT_EQ(other.scale, whole.scale) << layout.strategy << " at " << layout.world_size;
  }
}

TEST(ClipGradNormTest, SmallGradientsAndSwitchedOffClippingScaleByOne) {
  const std::vector<float> matrix(9, 0.01f), vector(3, 0.0f);
  EXPECT_EQ(NormUnder({"full_shard", 2, 0, 0}, matrix, vector, 1.0).scale, 1.0f);
  const std::vector<float> large(9, 100.0f);
  const ClipResult off = NormUnder({"full_shard", 2, 0, 0}, large, vector, 0.0);
  EXPECT_EQ(off.scale, 1.0f);
  EXPECT_EQ(off.norm, 300.0f);
}

TEST(ClipGradNormTest, WhatIsNotFiniteShows) {
  std::vector<float> matrix(9, 1.0f);
  const std::vector<float> vector(3, 1.0f);
  matrix[8] = std::numeric_limits<float>::infinity();
  const ClipResult infinite = NormUnder({"full_shard", 4, 0, 0}, matrix, vector, 1.0);
  EXPECT_TRUE(std::isinf(infinite.norm));
  EXPECT_TRUE(std::isnan(infinite.scale));
  matrix[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(NormUnder({"full_shard", 4, 0, 0}, matrix, vector, 1.0).norm));
}

}  // namespace
}  // namespace zeroth
