// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests plans, and the fallbacks where cuBLASLt has no algorithm. The shared suite tests the
// results of every kind of matmul.

#include "zeroth/kernels/cuda/cublaslt.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/testing/missing_device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/gemm/gemm_cuda.h"

namespace zeroth::cuda {
namespace {

class CublasLtTest : public testing::Test {
 protected:
  void SetUp() override {
    ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
    device_ = *DeviceRegistry::Create("cuda", DeviceOptions());
    device_->BindThread();
    CudaDevice& device = CudaDevice::From(*device_);
    target_ = {device.compute_stream().handle(), device.properties().multiprocessors};
    blas_ = *CublasLt::Create(target_.stream, device.allocator());
  }

  Tensor Upload(const std::vector<float>& values) {
    return *Tensor::FromHost<float>(*device_, Shape({static_cast<int64_t>(values.size())}), values,
                                    MemoryCategory::kWorkspace);
  }

  // [m, k] x [k, n], one long row after another, all in fp32.
  GemmCall MatmulOf(int64_t m, int64_t n, int64_t k) {
    std::normal_distribution<float> normal;
    a_values_.resize(static_cast<size_t>(m * k));
    b_values_.resize(static_cast<size_t>(k * n));
    for (std::vector<float>* values : {&a_values_, &b_values_}) {
      for (float& value : *values) value = normal(random_);
    }
    a_ = Upload(a_values_);
    b_ = Upload(b_values_);
    c_ = Upload(std::vector<float>(static_cast<size_t>(m * n), 0.0f));
    GemmCall call;
    call.m = m;
    call.n = n;
    call.k = k;
    call.a = a_.raw_data();
    call.lda = k;
    call.b = b_.raw_data();
    call.ldb = n;
    call.c = c_.raw_data();
    call.ldc = n;
    return call;
  }

  std::shared_ptr<Device> device_;
  LaunchTarget target_;
  std::unique_ptr<CublasLt> blas_;
  std::mt19937 random_{11};
  std::vector<float> a_values_;
  std::vector<float> b_values_;
  Tensor a_;
  Tensor b_;
  Tensor c_;
};

TEST_F(CublasLtTest, AMatmulIsPlannedOnce) {
  GemmCall call = MatmulOf(16, 24, 8);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Gemm(call, *blas_, target_), absl::OkStatus());
  EXPECT_EQ(blas_->plans_made(), 1);
  call.m = 8;
  ASSERT_EQ(Gemm(call, *blas_, target_), absl::OkStatus());
  EXPECT_EQ(blas_->plans_made(), 2);
  call.m = 16;
  ASSERT_EQ(Gemm(call, *blas_, target_), absl::OkStatus());
  EXPECT_EQ(blas_->plans_made(), 2);
}

TEST_F(CublasLtTest, ThePlansThatWereUsedLatestAreKept) {
  const auto most = static_cast<int64_t>(CublasLt::kMostPlans);
  GemmCall call = MatmulOf(most + 1, 4, 4);
  const auto multiply = [&](int64_t rows) {
    call.m = rows;
    EXPECT_EQ(Gemm(call, *blas_, target_), absl::OkStatus());
    return blas_->plans_made();
  };
  for (int64_t rows = 1; rows <= most; ++rows) multiply(rows);
  EXPECT_EQ(blas_->plan_count(), CublasLt::kMostPlans);
  EXPECT_EQ(multiply(1), most) << "still there, and now the latest";
  EXPECT_EQ(multiply(most + 1), most + 1);
  EXPECT_EQ(blas_->plan_count(), CublasLt::kMostPlans);
  EXPECT_EQ(multiply(1), most + 1);
  EXPECT_EQ(multiply(2), most + 2) << "made way";
}

// SiLU is not among cuBLASLt's epilogues. More rows than are staged at a time, and some left over.
TEST_F(CublasLtTest, EpiloguesOfOursAreAppliedInStages) {
  for (const bool transpose_a : {false, true}) {
    constexpr int64_t kRows = 290;
    constexpr int64_t kColumns = 20000;
    GemmCall call = MatmulOf(kRows, kColumns, /*k=*/3);
    call.transpose_a = transpose_a;
    if (transpose_a) call.lda = kRows;
    call.activation = Activation::kSilu;
    const int64_t step = StagedRows(call);
    ASSERT_GT(step, 0);
    ASSERT_LT(step, kRows);
    std::vector<float> bias(static_cast<size_t>(kColumns));
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i % 7) - 3.0f;
    const Tensor bias_tensor = Upload(bias);
    call.bias = bias_tensor.raw_data();
    ASSERT_EQ(Gemm(call, *blas_, target_), absl::OkStatus());
    const std::vector<float> c = *c_.ToHost<float>();
    std::uniform_int_distribution<int64_t> any(0, kRows * kColumns - 1);
    const int64_t edge = step * kColumns;
    for (int i = 0; i < 1000; ++i) {
      // The first and the last elements of each stage, then others.
      const int64_t at = i < 8 ? (i < 4 ? edge - 2 + i : kRows * kColumns - 8 + i) : any(random_);
      const int64_t row = at / kColumns;
      const int64_t column = at % kColumns;
      double x = static_cast<double>(bias[static_cast<size_t>(column)]);
      for (int64_t k = 0; k < 3; ++k) {
        const int64_t a_at = transpose_a ? k * kRows + row : row * 3 + k;
        x += static_cast<double>(a_values_[static_cast<size_t>(a_at)]) *
             static_cast<double>(b_values_[static_cast<size_t>(k * kColumns + column)]);
      }
      ASSERT_NEAR(static_cast<double>(c[static_cast<size_t>(at)]), x / (1.0 + std::exp(-x)), 1e-5)
          << "row " << row << ", column " << column;
    }
  }
}

// Matmuls of fp32 inputs must not change because others may use TF32.
TEST_F(CublasLtTest, Fp32MatmulsAreFp32) {
  GemmCall call = MatmulOf(64, 64, 64);
  ASSERT_EQ(Gemm(call, *blas_, target_), absl::OkStatus());
  const std::vector<float> c = *c_.ToHost<float>();
  double worst = 0;
  for (size_t row = 0; row < 64; ++row) {
    for (size_t column = 0; column < 64; ++column) {
      double sum = 0;
      double magnitude = 0;
      for (size_t k = 0; k < 64; ++k) {
        const double term = static_cast<double>(a_values_[row * 64 + k]) *
                            static_cast<double>(b_values_[k * 64 + column]);
        sum += term;
        magnitude += std::abs(term);
      }
      worst =
          std::max(worst, std::abs(static_cast<double>(c[row * 64 + column]) - sum) / magnitude);
    }
  }
  EXPECT_LT(worst, 1e-5) << "TF32 would be wrong by about 1e-4";
}

}  // namespace
}  // namespace zeroth::cuda
