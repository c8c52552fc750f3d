// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Signals that arrive during a matmul, as from a launcher or a profiler, leave its result and the
// heap intact. oneDNN's GEMM alone does not survive this test.

#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {
namespace {

std::atomic<int64_t> signals{0};
void CountSignal(int /*signal*/) { signals.fetch_add(1); }

class GemmSignalsTest : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    struct sigaction action = {};
    action.sa_handler = CountSignal;
    action.sa_flags = SA_RESTART;
    ASSERT_EQ(sigaction(SIGALRM, &action, nullptr), 0);
    const itimerval often = {{0, 50}, {0, 50}};
    ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  }
  void TearDown() override {
    const itimerval never = {};
    setitimer(ITIMER_REAL, &never, nullptr);
  }
};

TEST_P(GemmSignalsTest, LeaveMatmulsIntact) {
  DeviceOptions options;
  options.threads = 2;
  const std::shared_ptr<Device> device = *DeviceRegistry::Create("cpu", options);
  device->BindThread();
  const std::unique_ptr<Kernels> kernels =
      *KernelRegistry::Create(*device, device->compute_stream(), KernelOptions());
  // Returns a matrix of ones.
  const auto ones = [&](int64_t rows, int64_t columns) {
    const auto count = static_cast<size_t>(rows * columns);
    const std::vector<float> fp32(count, 1.0f);
    const std::vector<uint16_t> bf16(count, 0x3F80);
    const Tensor tensor =
        *Tensor::Empty(*device, Shape({rows, columns}), GetParam(), MemoryCategory::kWorkspace);
    const bool is_fp32 = GetParam() == DType::kFloat32;
    const void* const values = is_fp32 ? static_cast<const void*>(fp32.data()) : bf16.data();
    EXPECT_EQ(
        device->CopyFromHost(tensor.raw_data(), values, tensor.bytes(), device->compute_stream()),
        absl::OkStatus());
    return tensor;
  };
  const int64_t before = signals.load();
  for (int i = 0; i < 3000 || signals.load() < before + 1000; ++i) {
    const int64_t m = std::vector<int64_t>{64, 256, 192, 16}[static_cast<size_t>(i % 4)];
    const int64_t n = std::vector<int64_t>{64, 33, 257}[static_cast<size_t>(i / 4 % 3)];
    const int64_t k = std::vector<int64_t>{64, 32, 100, 257}[static_cast<size_t>(i / 12 % 4)];
    GemmArgs gemm;
    gemm.transpose_a = i / 48 % 2 == 1;
    gemm.transpose_b = i / 96 % 2 == 1;
    gemm.a = gemm.transpose_a ? ones(k, m) : ones(m, k);
    gemm.b = gemm.transpose_b ? ones(n, k) : ones(k, n);
    const Tensor product =
        *Tensor::Empty(*device, Shape({m, n}), DType::kFloat32, MemoryCategory::kWorkspace);
    gemm.c = product;
    ASSERT_EQ(kernels::Gemm(*kernels, gemm), absl::OkStatus());
    const std::vector<float> c = *product.ToHost<float>();
    for (const float value : c) {
      ASSERT_EQ(value, static_cast<float>(k)) << m << " x " << n << " x " << k << ", call " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GemmSignalsTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& type) { return std::string(DTypeName(type.param)); });

}  // namespace
}  // namespace zeroth
