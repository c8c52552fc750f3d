// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A matmul without a cuBLASLt algorithm is an error, or is slow and listed by SlowMatmuls().

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SlowMatmulTest : public testing::Test {
 protected:
  void SetUp() override {
    device_ = *DeviceRegistry::Create("cuda", DeviceOptions());
    device_->BindThread();
  }

  std::unique_ptr<Kernels> Make(bool allow_slow_kernels) {
    KernelOptions options;
    options.allow_slow_kernels = allow_slow_kernels;
    return *KernelRegistry::Create(*device_, device_->compute_stream(), options);
  }

  Tensor Ones(int64_t rows, int64_t columns) {
    const Tensor ones = *Tensor::FromHost<float>(
        *device_, Shape({rows, columns}),
        std::vector<float>(static_cast<size_t>(rows * columns), 1.0f), MemoryCategory::kWorkspace);
    Tensor result = *Tensor::Empty(*device_, Shape({rows, columns}), DType::kBFloat16,
                                   MemoryCategory::kWorkspace);
    EXPECT_EQ(kernels::Cast(*Make(false), ones, result), absl::OkStatus());
    return result;
  }

  // Ones [m, k] times ones [k, n] in bf16, whose rows begin on 16 bytes if n is a multiple of 8.
  absl::Status Multiply(Kernels& kernels, int64_t m, int64_t n, int64_t k) {
    GemmArgs gemm;
    gemm.a = Ones(m, k);
    gemm.b = Ones(k, n);
    const Tensor c =
        *Tensor::Empty(*device_, Shape({m, n}), DType::kFloat32, MemoryCategory::kWorkspace);
    gemm.c = c;
    const absl::Status status = kernels::Gemm(kernels, gemm);
    if (status.ok()) {
      EXPECT_EQ(*c.ToHost<float>(),
                std::vector<float>(static_cast<size_t>(m * n), static_cast<float>(k)));
    }
    return status;
  }

  std::shared_ptr<Device> device_;
};

TEST_F(SlowMatmulTest, ALargeMatmulWithoutAnAlgorithmIsAnError) {
  const std::unique_ptr<Kernels> kernels = Make(/*allow_slow_kernels=*/false);
  const absl::Status status = Multiply(*kernels, 512, 129, 128);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  for (const char* part : {"[512, 128] x [128, 129] in bf16 into fp32", "a hundred times slower",
                           "--allow_slow_kernels"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  EXPECT_THAT(kernels->SlowMatmuls(), IsEmpty());
}

TEST_F(SlowMatmulTest, OneThatIsAllowedIsComputedAndNamedOnce) {
  const std::unique_ptr<Kernels> kernels = Make(/*allow_slow_kernels=*/true);
  EXPECT_EQ(Multiply(*kernels, 512, 128, 128), absl::OkStatus());
  EXPECT_THAT(kernels->SlowMatmuls(), IsEmpty()) << "cuBLASLt has an algorithm for this one";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Multiply(*kernels, 512, 129, 128), absl::OkStatus());
  EXPECT_THAT(kernels->SlowMatmuls(), ElementsAre("[512, 128] x [128, 129] in bf16 into fp32"));
}

TEST_F(SlowMatmulTest, ASmallOneIsNobodysConcern) {
  const std::unique_ptr<Kernels> kernels = Make(/*allow_slow_kernels=*/false);
  EXPECT_EQ(Multiply(*kernels, 16, 9, 8), absl::OkStatus());
  EXPECT_THAT(kernels->SlowMatmuls(), IsEmpty());
}

}  // namespace
}  // namespace zeroth
