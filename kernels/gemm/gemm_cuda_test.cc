// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests the keys with which matmuls are passed to cuBLASLt, and that a matmul inside larger
// matrices keeps its bits. The shared suite tests results.

#include "zeroth/kernels/gemm/gemm_cuda.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/testing/missing_device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"

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

// Matrices of values that look random, alone or as columns of a larger one.
class MatmulBitsTest : public testing::Test {
 protected:
  static constexpr float kBeside = 7;  // in the columns beside a matrix

  void SetUp() override {
    ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
    device_ = *DeviceRegistry::Create("cuda", {.bits_of_any_team = true});
    device_->BindThread();
    kernels_ = *KernelRegistry::Create(*device_, device_->compute_stream());
  }

  Tensor Empty(int64_t rows, int64_t columns, DType dtype) {
    return *Tensor::Empty(*device_, Shape({rows, columns}), dtype, MemoryCategory::kWorkspace);
  }

  // Returns [rows, columns] between `beside` more columns on each side.
  Matrix Make(int64_t rows, int64_t columns, DType dtype, int64_t beside) {
    std::vector<float> values(static_cast<size_t>(rows * columns));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i * i + 1));
    const Tensor fp32 = *Tensor::FromHost<float>(*device_, Shape({rows, columns}), values,
                                                 MemoryCategory::kWorkspace);
    const Tensor alone = Empty(rows, columns, dtype);
    EXPECT_EQ(kernels::Cast(*kernels_, fp32, alone), absl::OkStatus());
    if (beside == 0) return alone;
    const Tensor whole = Empty(rows, columns + 2 * beside, dtype);
    EXPECT_EQ(kernels::Basic(*kernels_, {.op = BasicOp::kFill, .out = whole, .scalar = kBeside}),
              absl::OkStatus());
    const Matrix inside = Matrix(whole).Columns(beside, columns);
    EXPECT_EQ(kernels::Basic(*kernels_, {.a = alone, .out = inside}), absl::OkStatus());
    return inside;
  }

  std::vector<float> Values(const Matrix& matrix) {
    const Tensor alone = Empty(matrix.rows, matrix.cols, matrix.tensor.dtype());
    const Tensor fp32 = Empty(matrix.rows, matrix.cols, DType::kFloat32);
    EXPECT_EQ(kernels::Basic(*kernels_, {.a = matrix, .out = alone}), absl::OkStatus());
    EXPECT_EQ(kernels::Cast(*kernels_, alone, fp32), absl::OkStatus());
    return *fp32.ToHost<float>();
  }

  // [m, k] x [k, n] + c or a bias, every matrix between `beside` more columns.
  std::vector<float> Multiply(const MatmulKey& of, int64_t beside) {
    GemmArgs args;
    args.a = of.transpose_second ? Make(of.depth, of.columns, of.dtype, beside)
                                 : Make(of.columns, of.depth, of.dtype, beside);
    args.b = of.transpose_first ? Make(of.rows, of.depth, of.dtype, beside)
                                : Make(of.depth, of.rows, of.dtype, beside);
    args.c = Make(of.columns, of.rows, of.c_dtype, beside);
    args.transpose_a = of.transpose_second;
    args.transpose_b = of.transpose_first;
    args.accumulate = of.accumulate;
    if (!of.accumulate) {
      const Matrix bias = Make(1, of.rows, of.dtype, beside);
      args.bias = bias.tensor.View(bias.offset, Shape({of.rows}));
    }
    EXPECT_EQ(kernels::Gemm(*kernels_, args), absl::OkStatus());
    if (beside > 0) {
      for (const int64_t first : {int64_t{0}, beside + of.rows}) {
        EXPECT_THAT(Values(Matrix(args.c.tensor).Columns(first, beside)), testing::Each(kBeside));
      }
    }
    return Values(args.c);
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Kernels> kernels_;
};

// A piece of a layer must have the same bits whatever the number of tensor ranks. At a depth of 104
// the emulated library adds more than one partial sum.
TEST_F(MatmulBitsTest, DoNotDependOnTheLayout) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int variant : {0, 1, 2, 3, 4, 5, 6, 7}) {
      for (const int64_t rows : {24, 10}) {
        MatmulKey of;
        of.rows = rows;
        of.columns = 16;
        of.depth = 104;
        of.dtype = dtype;
        of.c_dtype = variant % 2 == 0 ? dtype : DType::kFloat32;
        of.transpose_first = (variant & 2) != 0;
        of.transpose_second = (variant & 4) != 0;
        for (const bool accumulate : {false, true}) {
          of.accumulate = accumulate;
          const std::vector<float> alone = Multiply(of, 0);
          for (const int64_t beside : {1, 8}) {
            EXPECT_EQ(Multiply(of, beside), alone)
                << DTypeName(dtype) << ", variant " << variant << ", " << rows << " columns, "
                << beside << " beside them" << (accumulate ? ", accumulated" : "");
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace zeroth::cuda
