// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests the keys with which matmuls of 8-bit floats are passed to cuBLASLt. The shared suite tests
// results.

#include "zeroth/kernels/fp8/fp8_gemm_cuda.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/testing/missing_device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth::cuda {
namespace {

alignas(256) uint8_t memory[1024];

Fp8GemmCall Call(int64_t m, int64_t n, int64_t k) {
  Fp8GemmCall call;
  call.m = m;
  call.n = n;
  call.k = k;
  call.a = memory;
  call.a_format = Fp8Format::kE5M2;
  call.b = memory;
  call.c = memory;
  call.c_dtype = DType::kBFloat16;
  call.ldc = n;
  return call;
}

TEST(Fp8MatmulKeyTest, OperandsAreTransposedAndNotTransposed) {
  const MatmulKey key = KeyOf(Call(5, 32, 48));
  EXPECT_EQ(key.rows, 32);
  EXPECT_EQ(key.columns, 5);
  EXPECT_EQ(key.depth, 48);
  EXPECT_TRUE(key.fp8);
  EXPECT_TRUE(key.transpose_first);
  EXPECT_FALSE(key.transpose_second);
  EXPECT_EQ(key.first_format, Fp8Format::kE4M3) << "b comes first";
  EXPECT_EQ(key.second_format, Fp8Format::kE5M2);
  EXPECT_EQ(key.first_ld, 48);
  EXPECT_EQ(key.second_ld, 48);
  EXPECT_EQ(key.dtype, DType::kBFloat16) << "the bias's";
}

TEST(Fp8MatmulKeyTest, FormatsDecideAPlan) {
  const MatmulKey key = KeyOf(Call(5, 32, 48));
  Fp8GemmCall other = Call(5, 32, 48);
  other.a_format = Fp8Format::kE4M3;
  EXPECT_TRUE(key < KeyOf(other) || KeyOf(other) < key);
  other = Call(5, 32, 48);
  other.bias = memory;
  EXPECT_EQ(KeyOf(other).epilogue, Epilogue::kBias);
}

class Fp8GemmTest : public testing::Test {
 protected:
  void SetUp() override {
    ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
    device_ = *DeviceRegistry::Create("cuda", DeviceOptions());
    device_->BindThread();
    CudaDevice& device = CudaDevice::From(*device_);
    target_ = {device.compute_stream().handle(), device.properties().multiprocessors};
    blas_ = *CublasLt::Create(target_.stream, device.allocator());
  }

  template <typename T>
  Tensor Upload(const std::vector<T>& values) {
    return *Tensor::FromHost<T>(*device_, Shape({static_cast<int64_t>(values.size())}), values,
                                MemoryCategory::kWorkspace);
  }

  // A matmul of ones, 0x38 in e4m3, into fp32.
  Fp8GemmCall Ones(int64_t m, int64_t n, int64_t k) {
    ones_ = Upload(std::vector<uint8_t>(static_cast<size_t>((m + n) * k), 0x38));
    c_ = Upload(std::vector<float>(static_cast<size_t>(m * n), -1.0f));
    Fp8GemmCall call;
    call.m = m;
    call.n = n;
    call.k = k;
    call.a = static_cast<const uint8_t*>(ones_.raw_data());
    call.b = static_cast<const uint8_t*>(ones_.raw_data());
    call.c = c_.raw_data();
    call.ldc = n;
    return call;
  }

  std::shared_ptr<Device> device_;
  LaunchTarget target_;
  std::unique_ptr<CublasLt> blas_;
  Tensor ones_;
  Tensor c_;
};

TEST_F(Fp8GemmTest, APlanIsMadeOnceAndTakesTheScalesOfEachCall) {
  Fp8GemmCall call = Ones(7, 16, 32);
  for (const float scale : {0.5f, 3.0f}) {
    const Tensor a_scale = Upload<float>({scale, 0});
    const Tensor b_scale = Upload<float>({0.25f, 0});
    call.a_scale = a_scale.data<float>();
    call.b_scale = b_scale.data<float>();
    ASSERT_EQ(Fp8Gemm(call, *blas_, target_), absl::OkStatus());
    EXPECT_EQ(*c_.ToHost<float>(), std::vector<float>(7 * 16, 32 * scale * 0.25f));
  }
  EXPECT_EQ(blas_->plans_made(), 1);
}

TEST_F(Fp8GemmTest, WhatCublasLtHasNotIsRefusedAndNotMadeInMoreBits) {
  const Tensor scale = Upload<float>({1, 0});
  Fp8GemmCall call = Ones(16, 16, 24);
  call.a_scale = scale.data<float>();
  call.b_scale = scale.data<float>();
  const absl::Status status = Fp8Gemm(call, *blas_, target_);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(status.message()).find("[16, 24] x [24, 16]"), std::string::npos) << status;
  EXPECT_EQ(*c_.ToHost<float>(), std::vector<float>(256, -1.0f)) << "written to all the same";
  call = Ones(16, 16, 32);
  call.a_scale = scale.data<float>();
  call.b_scale = scale.data<float>();
  call.a_format = Fp8Format::kE5M2;
  call.b_format = Fp8Format::kE5M2;
  EXPECT_EQ(Fp8Gemm(call, *blas_, target_).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace zeroth::cuda
