// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "gtest/gtest.h"

#include "zeroth/kernels/linear_cross_entropy/loss_chunk.h"

namespace zeroth {
namespace {

LinearCrossEntropyCall Gpt2Call(int64_t rows) {
  static char weight_gradient;
  LinearCrossEntropyCall call;
  call.rows = rows;
  call.dim = 768;
  call.vocab = 50257;
  call.dtype = DType::kBFloat16;
  call.dweight = &weight_gradient;
  return call;
}

TEST(PlanLossTest, LogitsOfAChunkStayWithinTheirBudget) {
  const LossPlan plan = PlanLoss(Gpt2Call(65536));
  EXPECT_EQ(plan.words, 50264);
  EXPECT_EQ(plan.chunk_rows % 128, 0);
  EXPECT_GT(plan.chunk_rows, 4096);
  EXPECT_LE(plan.chunk_rows * plan.words * 4, int64_t{1} << 30);
}

TEST(PlanLossTest, AFewRowsAreOneChunk) {
  EXPECT_EQ(PlanLoss(Gpt2Call(100)).chunk_rows, 100);
  EXPECT_EQ(PlanLoss(Gpt2Call(0)).chunk_rows, 1);
  LinearCrossEntropyCall huge = Gpt2Call(1000);
  huge.vocab = int64_t{1} << 24;
  EXPECT_EQ(PlanLoss(huge).chunk_rows, 128) << "fewer rows would make the matmuls inefficient";
}

TEST(PlanLossTest, SumsAreRoundedOnceWhateverTheGradientsType) {
  LinearCrossEntropyCall call = Gpt2Call(65536);
  call.vocab = 50304;
  EXPECT_FALSE(PlanLoss(call).sums_beside) << "fp32 gradients are their own sums";
  call.grad_dtype = DType::kBFloat16;
  const LossPlan plan = PlanLoss(call);
  EXPECT_TRUE(plan.sums_beside);
  EXPECT_GE(plan.scratch_bytes, plan.sums_offset + size_t{50304} * 768 * 4);
  call.rows = 128;
  EXPECT_FALSE(PlanLoss(call).sums_beside) << "one chunk is one matmul";
}

TEST(PlanLossTest, AnOddVocabularyIsPadded) {
  const LossPlan plan = PlanLoss(Gpt2Call(128));
  EXPECT_TRUE(plan.pads_weight);
  EXPECT_TRUE(plan.sums_beside) << "dweight has no place for the additional rows";
  LinearCrossEntropyCall call = Gpt2Call(128);
  call.vocab = 50264;
  EXPECT_FALSE(PlanLoss(call).pads_weight);
  EXPECT_FALSE(PlanLoss(call).sums_beside);
  call.vocab = 50257;
  call.dweight = nullptr;
  EXPECT_FALSE(PlanLoss(call).sums_beside);
}

TEST(PlanLossTest, PartsDoNotOverlap) {
  const LossPlan plan = PlanLoss(Gpt2Call(1000));
  EXPECT_GE(plan.losses_offset, plan.count_offset + 4);
  EXPECT_GE(plan.logits_offset, plan.losses_offset + 4000);
  EXPECT_GE(plan.sums_offset,
            plan.logits_offset + static_cast<size_t>(plan.chunk_rows * plan.words * 4));
  EXPECT_GE(plan.weight_offset, plan.sums_offset + size_t{50264} * 768 * 4);
  EXPECT_GE(plan.scratch_bytes, plan.weight_offset + size_t{50264} * 768 * 2);
  for (const size_t offset :
       {plan.losses_offset, plan.logits_offset, plan.sums_offset, plan.weight_offset}) {
    EXPECT_EQ(offset % 256, 0u);
  }
}

}  // namespace
}  // namespace zeroth
