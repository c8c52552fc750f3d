// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Measures the effect of KernelOptions::fp32_precision by the errors of matmuls.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/device/testing/missing_device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {
namespace {

constexpr int64_t kSize = 64;

class Fp32PrecisionTest : public testing::Test {
 protected:
  void SetUp() override {
    ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
    device_ = *DeviceRegistry::Create("cuda", DeviceOptions());
    device_->BindThread();
    std::normal_distribution<float> normal;
    for (std::vector<float>* values : {&a_, &b_}) {
      values->resize(static_cast<size_t>(kSize * kSize));
      for (float& value : *values) value = normal(random_);
    }
  }

  Tensor Upload(const std::vector<float>& values) {
    return *Tensor::FromHost<float>(*device_, Shape({kSize, kSize}), values,
                                    MemoryCategory::kWorkspace);
  }

  // Returns the matmul computed by kernels of this precision.
  std::vector<float> Matmul(Fp32Precision precision) {
    KernelOptions options;
    options.fp32_precision = precision;
    const std::unique_ptr<Kernels> kernels =
        *KernelRegistry::Create(*device_, device_->compute_stream(), options);
    GemmArgs gemm;
    gemm.a = Upload(a_);
    gemm.b = Upload(b_);
    const Tensor c = Upload(std::vector<float>(a_.size(), NAN));
    gemm.c = c;
    EXPECT_EQ(kernels::Gemm(*kernels, gemm), absl::OkStatus());
    return *c.ToHost<float>();
  }

  // Returns the largest difference from the matmul in double, over the sum of its terms'
  // magnitudes.
  double WorstError(const std::vector<float>& c) {
    double worst = 0;
    for (size_t row = 0; row < kSize; ++row) {
      for (size_t column = 0; column < kSize; ++column) {
        double sum = 0;
        double magnitude = 0;
        for (size_t k = 0; k < kSize; ++k) {
          const double term = static_cast<double>(a_[row * kSize + k]) *
                              static_cast<double>(b_[k * kSize + column]);
          sum += term;
          magnitude += std::abs(term);
        }
        const double error = std::abs(static_cast<double>(c[row * kSize + column]) - sum);
        worst = std::max(worst, error / magnitude);
      }
    }
    return worst;
  }

  std::shared_ptr<Device> device_;
  std::mt19937 random_{11};
  std::vector<float> a_;
  std::vector<float> b_;
};

TEST_F(Fp32PrecisionTest, IeeeIsFp32) { EXPECT_LT(WorstError(Matmul(Fp32Precision::kIeee)), 1e-6); }

TEST_F(Fp32PrecisionTest, Tf32RoundsOperandsTo10BitsOfMantissa) {
  const double worst = WorstError(Matmul(Fp32Precision::kTf32));
  // Each operand is wrong by at most 2^-11 of itself, or 2^-10 where a device cuts bits off.
  EXPECT_LT(worst, 2e-3);
  EXPECT_GT(worst, 1e-5) << "as exact as fp32: the option had no effect";
}

// The options of one kernels object do not affect another.
TEST_F(Fp32PrecisionTest, TheDefaultStaysIeee) {
  Matmul(Fp32Precision::kTf32);
  EXPECT_EQ(KernelOptions().fp32_precision, Fp32Precision::kIeee);
  EXPECT_LT(WorstError(Matmul(KernelOptions().fp32_precision)), 1e-6);
}

}  // namespace
}  // namespace zeroth
