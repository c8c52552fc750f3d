// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/testing/resource_usage.h"

namespace zeroth::cuda {
namespace {

using TreeReduceUsageTest = ResourceUsageTest;

TEST_F(TreeReduceUsageTest, NothingSpillsOrComputesInDoublePrecision) { CheckAll({}, {}); }

// The kernels for more than 31 ranks.
TEST_F(TreeReduceUsageTest, SumsOverManyRanksMoveInPacks) {
  ForEach("TreeReduceKernel<float, float, false, 10, 4, *",
          [](const KernelCode& kernel) { EXPECT_GE(kernel.instructions.global_loads[16], 4); });
  ForEach("TreeReduceKernel<__nv_bfloat16, *, 10, 4, *",
          [](const KernelCode& kernel) { EXPECT_GE(kernel.instructions.global_loads[8], 4); });
}

TEST_F(TreeReduceUsageTest, SumsMoveInPacksWithTheNextPairOfRanksUnderWay) {
  // The template's arguments: element, result, maximum, levels, elements of a pack, ranks.
  for (const char* const pattern :
       {"TreeReduceKernel<float, float, false, 4, 4, *", "TreeReduceKernel<__half, *, 4, 8, *",
        "TreeReduceKernel<__nv_bfloat16, *, 4, 8, *"}) {
    ForEach(pattern, [](const KernelCode& kernel) {
      EXPECT_GE(kernel.instructions.global_loads[16], 4);
      EXPECT_GE(kernel.instructions.global_stores[16], 1);
      EXPECT_GE(BlocksByRegisters(kernel, kernel.block_threads), 2);
    });
  }
}

}  // namespace
}  // namespace zeroth::cuda
