// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The keys with which matmuls are passed to cuBLASLt. The shared suite tests results.

#include "zeroth/kernels/gemm/gemm_cuda.h"

#include "gtest/gtest.h"

#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth::cuda {
namespace {

alignas(256) char memory[1024];

GemmCall Call(int64_t m, int64_t n, int64_t k) {
  GemmCall call;
  call.m = m;
  call.n = n;
  call.k = k;
  call.a = memory;
  call.lda = k;
  call.b = memory;
  call.ldb = n;
  call.c = memory;
  call.ldc = n;
  return call;
}

TEST(MatmulKeyTest, OperandsChangePlacesSoThatRowsBecomeColumns) {
  GemmCall call = Call(2, 3, 5);
  call.b = memory + 8;
  call.transpose_a = true;
  call.lda = 7;
  const MatmulKey key = KeyOf(call, false);
  EXPECT_EQ(key.rows, 3);
  EXPECT_EQ(key.columns, 2);
  EXPECT_EQ(key.depth, 5);
  EXPECT_EQ(key.first_ld, 3) << "b comes first";
  EXPECT_EQ(key.second_ld, 7);
  EXPECT_FALSE(key.transpose_first);
  EXPECT_TRUE(key.transpose_second);
  EXPECT_EQ(key.first_alignment, 8u);
  EXPECT_EQ(key.second_alignment, 16u);
}

TEST(MatmulKeyTest, Epilogues) {
  GemmCall call = Call(8, 8, 8);
  EXPECT_EQ(KeyOf(call, false).epilogue, Epilogue::kNone);
  call.bias = memory;
  EXPECT_EQ(KeyOf(call, false).epilogue, Epilogue::kBias);
  call.activation = Activation::kGelu;
  EXPECT_EQ(KeyOf(call, false).epilogue, Epilogue::kBiasGelu);
  call.pre_activation = memory;
  EXPECT_EQ(KeyOf(call, false).epilogue, Epilogue::kBiasGeluAux);
  call.bias = nullptr;
  EXPECT_EQ(KeyOf(call, false).epilogue, Epilogue::kGeluAux);
  call = Call(8, 8, 8);
  call.gelu_input = memory;
  EXPECT_EQ(KeyOf(call, false).epilogue, Epilogue::kGeluBackward);
}

TEST(MatmulKeyTest, WhatDecidesAPlanIsInItsKey) {
  const MatmulKey key = KeyOf(Call(8, 16, 32), false);
  const auto differs = [&](auto change) {
    MatmulKey other = key;
    change(other);
    return key < other || other < key;
  };
  EXPECT_FALSE(differs([](MatmulKey&) {}));
  EXPECT_TRUE(differs([](MatmulKey& k) { k.rows = 9; }));
  EXPECT_TRUE(differs([](MatmulKey& k) { k.c_ld = 99; }));
  EXPECT_TRUE(differs([](MatmulKey& k) { k.c_dtype = DType::kBFloat16; }));
  EXPECT_TRUE(differs([](MatmulKey& k) { k.allow_tf32 = true; }));
  EXPECT_TRUE(differs([](MatmulKey& k) { k.accumulate = true; }));
  EXPECT_TRUE(differs([](MatmulKey& k) { k.first_alignment = 2; }));
  EXPECT_TRUE(differs([](MatmulKey& k) { k.bias_alignment = 2; }));
  EXPECT_TRUE(differs([](MatmulKey& k) { k.aux_alignment = 2; }));
  EXPECT_TRUE(differs([](MatmulKey& k) { k.epilogue = Epilogue::kGelu; }));
}

TEST(MatmulKeyTest, AlignmentIsAPowerOfTwoUpTo16) {
  EXPECT_EQ(AlignmentOf(memory), 16u);
  EXPECT_EQ(AlignmentOf(memory + 2), 2u);
  EXPECT_EQ(AlignmentOf(memory + 24), 8u);
}

TEST(MatmulKeyTest, WhatAnEpilogueAccessesHasItsAlignmentToo) {
  GemmCall call = Call(8, 8, 8);
  EXPECT_EQ(KeyOf(call, false).bias_alignment, 16u) << "none is as good as any";
  call.bias = memory + 4;
  call.pre_activation = memory + 2;
  EXPECT_EQ(KeyOf(call, false).c_alignment, 16u);
  EXPECT_EQ(KeyOf(call, false).bias_alignment, 4u);
  EXPECT_EQ(KeyOf(call, false).aux_alignment, 2u);
  call = Call(8, 8, 8);
  call.gelu_input = memory + 8;
  EXPECT_EQ(KeyOf(call, false).aux_alignment, 8u);
}

TEST(StagedRowsTest, FitTheStaging) {
  EXPECT_EQ(StagedRows(Call(100, 768, 8)), 100);
  const int64_t rows = StagedRows(Call(65536, 3072, 8));
  EXPECT_EQ(rows % 128, 0);
  EXPECT_GE(rows, 1024);
  EXPECT_LE(static_cast<size_t>(rows * 3072) * sizeof(float), CublasLt::kStagingBytes);
  EXPECT_EQ(StagedRows(Call(65536, 50304, 8)), 0) << "128 rows are too long";
  EXPECT_EQ(StagedRows(Call(50, 50304, 8)), 50);
}

}  // namespace
}  // namespace zeroth::cuda
