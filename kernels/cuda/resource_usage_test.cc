// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares the kernels that ptxas produces with what their sources and launch plans assume.

#include "zeroth/core/device/cuda/testing/resource_usage.h"

#include <string>

#include "gtest/gtest.h"

#include "zeroth/kernels/attention/attention_plan.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {
namespace {

using KernelUsageTest = ResourceUsageTest;

// Three kernels may spill: FillTable runs once for a table, and keeps digits of a large angle's
// quotient by pi in an array; attention's forward keeps up to four numbers more than there are
// registers; SigmoidRouteGradient, with a thread for each token, two. The kernels that compute in
// double precision sum or decide only a few numbers: SigmoidScores rounds a score once, so that
// every device chooses the same experts.
TEST_F(KernelUsageTest, NothingSpillsOrComputesInDoublePrecisionUnasked) {
  CheckAll({"FillTable", "MmaForward<*", "SigmoidRouteGradient<*"},
           {"FillTable", "MeanKernel", "ClipFactorKernel", "MeanByThread<*", "MeanByBlock<*",
            "PairKernel", "PairMeans", "ChooseExperts<*SigmoidScores<*", "SigmoidRouteGradient<*"});
}

// MapShape counts on kBlocksPerMultiprocessor resident blocks: if fewer fit, the rest run alone.
TEST_F(KernelUsageTest, AMultiprocessorHoldsTheBlocksOfAMap) {
  for (const char* const pattern :
       {"Map1<*", "Map2<*", "SwiGluForward<*", "Lookup<*", "SumBatch<*", "Rotate<*",
        "DequantizeKernel<*", "SumKernel<*", "EpilogueKernel<*", "RoundKernel<*", "LargestKernel<*",
        "AdamWKernel<*", "PrepareKeys", "PlacePairs", "UnpackNf4<*", "UnpackInt8<*", "UnpackGguf<*",
        "CopyRowsKernel<*"}) {
    ForEach(pattern, [](const KernelCode& kernel) {
      EXPECT_EQ(kernel.block_threads, kMapThreads);
      EXPECT_GE(BlocksByRegisters(kernel, kMapThreads), kBlocksPerMultiprocessor);
    });
  }
}

struct Residency {
  const char* pattern;
  int threads;
  int blocks;  // per SM, at least
};

TEST_F(KernelUsageTest, AMultiprocessorHoldsTheBlocksThatPlansCountOn) {
  for (const Residency& expected : {
           Residency{"MmaForward<*", kMmaThreads, 2},
           Residency{"MmaBackwardKeys<*", kMmaThreads, 2},
           Residency{"MmaBackwardQueries<*", kMmaThreads, 2},
           Residency{"PlainForward<*", kPlainThreads, 2},
           Residency{"PlainBackward<*", kPlainThreads, 2},
           Residency{"SwiGluGradient<*", kMapThreads, 5},
           Residency{"EightBitAdamWKernel<__nv_bfloat16, *", kMapThreads, 4},
           Residency{"EightBitAdamWKernel<float, *", kMapThreads, 3},
           Residency{"CachedSoftmaxLossKernel<*, 1024>", 1024, 1},
           Residency{"SquareSums<*", kMapThreads, 4},
           Residency{"ColumnPiecesKernel<1, *", 256, 4},
           Residency{"ColumnPiecesKernel<2, *", 256, 3},
           Residency{"NormGradients<*", 256, 2},
           Residency{"NormForward<*", 128, 8},
           Residency{"NormInputGradient<*", 128, 8},
           Residency{"ChooseExperts<*", 128, 8},
           Residency{"ScatterRows<*", 128, 8},
           Residency{"CombineRows<*", 128, 8},
       }) {
    ForEach(expected.pattern, [&](const KernelCode& kernel) {
      EXPECT_EQ(kernel.block_threads, expected.threads);
      EXPECT_GE(BlocksByRegisters(kernel, expected.threads), expected.blocks);
    });
  }
}

struct Widths {
  const char* pattern;
  size_t width;  // bytes per access of a thread
  int loads;     // of that width, at least
  int stores;
};

// A pack that is split costs a memory request for each of its elements.
TEST_F(KernelUsageTest, PacksMoveAtOnce) {
  for (const Widths& expected : {
           Widths{"Map1<8, *, __nv_bfloat16, __nv_bfloat16>", 16, 1, 1},
           Widths{"Map1<8, Same, float, __nv_bfloat16>", 16, 1, 2},
           Widths{"Map1<8, Same, __nv_bfloat16, float>", 16, 2, 1},
           Widths{"Map1<4, *, float, float>", 16, 1, 1},
           Widths{"Map2<8, *", 16, 2, 1},
           Widths{"Map2<4, *", 16, 2, 1},
           Widths{"SwiGluForward<8, *", 16, 2, 1},
           Widths{"SwiGluGradient<8, *", 16, 3, 2},
           Widths{"Lookup<8, *", 16, 2, 1},
           Widths{"ScatterRows<8, *", 16, 1, 1},
           Widths{"CombineRows<8, *", 16, 2, 1},
           Widths{"Rotate<8, *", 16, 6, 2},
           Widths{"Rotate<4, *", 16, 4, 2},
           Widths{"SquareSums<float>", 16, 4, 0},
           Widths{"ColumnPiecesKernel<1, 8, *", 16, 4, 0},
           Widths{"ColumnPiecesKernel<2, 8, *", 16, 8, 0},
           Widths{"NormGradients<8, 3, *", 16, 12, 3},
           Widths{"NormForward<8, *", 16, 3, 1},
           Widths{"NormForward<4, *", 16, 3, 1},
           Widths{"NormInputGradient<8, *", 16, 6, 1},
           Widths{"AttentionDelta<8, *", 16, 2, 0},
           Widths{"SoftmaxLossKernel<float, *", 16, 2, 1},
           Widths{"LargestKernel<*, 8>", 16, 1, 0},
           // Four elements of each array: param, grad, m and v are read, all but grad written.
           Widths{"AdamWKernel<float, float, float>", 16, 4, 3},
           Widths{"AdamWKernel<float, __nv_bfloat16, float>", 16, 3, 3},
           Widths{"AdamWKernel<float, __nv_bfloat16, float>", 8, 1, 0},
           Widths{"AdamWKernel<float, float, __nv_bfloat16>", 16, 2, 1},
           Widths{"AdamWKernel<float, float, __nv_bfloat16>", 8, 2, 2},
           Widths{"AdamWKernel<__nv_bfloat16, *, float>", 16, 2, 2},
           Widths{"AdamWKernel<__nv_bfloat16, *, float>", 8, 1, 1},
           Widths{"AdamWKernel<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16>", 8, 4, 3},
           Widths{"UnpackNf4<__nv_bfloat16, 8>", 16, 0, 1},
           Widths{"UnpackInt8<__nv_bfloat16, 8>", 8, 1, 0},
           Widths{"UnpackInt8<__nv_bfloat16, 8>", 16, 0, 1},
           Widths{"UnpackGguf<__nv_bfloat16, *, 8>", 16, 0, 1},
           Widths{"EightBitAdamWKernel<float, float>", 16, 2, 1},
           Widths{"EightBitAdamWKernel<__nv_bfloat16, __nv_bfloat16>", 8, 2, 1},
       }) {
    ForEach(expected.pattern, [&](const KernelCode& kernel) {
      EXPECT_GE(kernel.instructions.global_loads[expected.width], expected.loads)
          << "loads of " << expected.width << " bytes";
      EXPECT_GE(kernel.instructions.global_stores[expected.width], expected.stores)
          << "stores of " << expected.width << " bytes";
    });
  }
}

TEST_F(KernelUsageTest, AttentionIsTensorCoresFedByLdmatrixAndAsynchronousCopies) {
  for (const char* const pattern : {"MmaForward<*", "MmaBackwardKeys<*", "MmaBackwardQueries<*"}) {
    ForEach(pattern, [](const KernelCode& kernel) {
      const InstructionCounts& counts = kernel.instructions;
      EXPECT_GE(counts.tensor_products, 32);
      // Each loads four 8 x 8 tiles, the operands of at least one mma.
      EXPECT_GE(counts.matrix_loads, 16);
      EXPECT_LE(counts.matrix_loads, counts.tensor_products);
      EXPECT_GE(counts.async_copies, 16);
      EXPECT_GE(counts.global_stores[16], 1);
    });
  }
}

}  // namespace
}  // namespace zeroth::cuda
