// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How products are put to cuBLASLt. That results are right is the shared suite's concern.

#include "zeroth/kernels/cuda/gemm.h"

#include "gtest/gtest.h"

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

TEST(ProductKeyTest, OperandsChangePlacesSoThatRowsBecomeColumns) {
  GemmCall call = Call(2, 3, 5);
  call.b = memory + 16;
  call.transpose_a = true;
  call.lda = 7;
  const ProductKey key = KeyOf(call, false);
  EXPECT_EQ(key.rows, 3);
  EXPECT_EQ(key.columns, 2);
  EXPECT_EQ(key.depth, 5);
  EXPECT_EQ(key.first_ld, 3) << "b comes first";
  EXPECT_EQ(key.second_ld, 7);
  EXPECT_FALSE(key.transpose_first);
  EXPECT_TRUE(key.transpose_second);
  EXPECT_EQ(key.first_alignment, 16u);
  EXPECT_EQ(key.second_alignment, 256u);
}

TEST(ProductKeyTest, Epilogues) {
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

TEST(ProductKeyTest, WhatDecidesAPlanIsInItsKey) {
  const ProductKey key = KeyOf(Call(8, 16, 32), false);
  const auto differs = [&](auto change) {
    ProductKey other = key;
    change(other);
    return key < other || other < key;
  };
  EXPECT_FALSE(differs([](ProductKey&) {}));
  EXPECT_TRUE(differs([](ProductKey& k) { k.rows = 9; }));
  EXPECT_TRUE(differs([](ProductKey& k) { k.c_ld = 99; }));
  EXPECT_TRUE(differs([](ProductKey& k) { k.c_dtype = DType::kBFloat16; }));
  EXPECT_TRUE(differs([](ProductKey& k) { k.allow_tf32 = true; }));
  EXPECT_TRUE(differs([](ProductKey& k) { k.accumulate = true; }));
  EXPECT_TRUE(differs([](ProductKey& k) { k.first_alignment = 2; }));
  EXPECT_TRUE(differs([](ProductKey& k) { k.epilogue = Epilogue::kGelu; }));
}

TEST(ProductKeyTest, AlignmentIsAPowerOfTwoUpTo256) {
  EXPECT_EQ(AlignmentOf(memory), 256u);
  EXPECT_EQ(AlignmentOf(memory + 2), 2u);
  EXPECT_EQ(AlignmentOf(memory + 48), 16u);
}

}  // namespace
}  // namespace zeroth::cuda
