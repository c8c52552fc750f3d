// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Kernels that access memory out of bounds, which the address sanitizer must name, and kernels that
// read uninitialized memory, which must see NaNs. Without that sanitizer the former are skipped.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/emulation/test_stream.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/core/device/cuda/launch.h"
#include "zeroth/core/device/device.h"

namespace zeroth::cuda {
namespace {

using emulation::RunKernel;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAccessesAreWatched = true;
#else
constexpr bool kAccessesAreWatched = false;
#endif

class AccessDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kAccessesAreWatched) GTEST_SKIP() << "wrong accesses show under --config=asan only";
    testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

__global__ void Touch(uint8_t* memory, int at) {
  if (threadIdx.x == 0) memory[at] = 1;
}

TEST_F(AccessDeathTest, OneByteBeyondDeviceMemory) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 100), cudaSuccess);
  auto* const bytes = static_cast<uint8_t*>(memory);
  RunKernel(Touch, {dim3(1), dim3(32)}, bytes, 99);
  EXPECT_DEATH(RunKernel(Touch, {dim3(1), dim3(32)}, bytes, 100), "heap-buffer-overflow");
  EXPECT_DEATH(RunKernel(Touch, {dim3(1), dim3(32)}, bytes, -1), "heap-buffer-overflow");
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_DEATH(RunKernel(Touch, {dim3(1), dim3(32)}, bytes, 0), "heap-use-after-free");
}

// The allocator under tensors cuts larger segments up on a device; here each buffer is one.
TEST_F(AccessDeathTest, OneByteBeyondABuffer) {
  absl::StatusOr<std::shared_ptr<Device>> device = DeviceRegistry::Create("cuda", {});
  ASSERT_TRUE(device.ok()) << device.status();
  std::shared_ptr<Buffer> buffers[2];
  for (std::shared_ptr<Buffer>& buffer : buffers) {
    auto allocated = (*device)->allocator().Allocate(100, MemoryCategory::kWorkspace);
    ASSERT_TRUE(allocated.ok()) << allocated.status();
    buffer = *allocated;
  }
  for (const std::shared_ptr<Buffer>& buffer : buffers) {
    auto* const bytes = static_cast<uint8_t*>(buffer->data());
    RunKernel(Touch, {dim3(1), dim3(32)}, bytes, 99);
    EXPECT_DEATH(RunKernel(Touch, {dim3(1), dim3(32)}, bytes, 100), "heap-buffer-overflow");
  }
}

__global__ void TouchDynamic(int at) {
  ZEROTH_DYNAMIC_SHARED(uint8_t, memory);
  if (threadIdx.x == 0) memory[at] = 1;
}

TEST_F(AccessDeathTest, OneByteBeyondDynamicSharedMemory) {
  const LaunchShape shape = {dim3(2), dim3(32), 100};
  RunKernel(TouchDynamic, shape, 99);
  EXPECT_DEATH(RunKernel(TouchDynamic, shape, 100), "heap-buffer-overflow");
  EXPECT_DEATH(RunKernel(TouchDynamic, shape, -1), "heap-buffer-overflow");
  EXPECT_DEATH(RunKernel(TouchDynamic, {dim3(1), dim3(32)}, 0), "heap-buffer-overflow");
}

// Writes through pointers, because the undefined behaviour sanitizer would already refuse an index.
__global__ void TouchStatic(int at, int* sum) {
  ZEROTH_SHARED(uint8_t, before, [100]);
  ZEROTH_SHARED(uint8_t, behind, [100]);
  uint8_t* const first = before;
  uint8_t* const second = behind;
  if (threadIdx.x != 0) return;
  first[at] = 1;
  second[at] = 2;
  *sum = first[at] + second[at];
}

TEST_F(AccessDeathTest, OneByteBeyondASharedArray) {
  int sum = 0;
  RunKernel(TouchStatic, {dim3(1), dim3(32)}, 99, &sum);
  EXPECT_EQ(sum, 3);
  EXPECT_DEATH(RunKernel(TouchStatic, {dim3(1), dim3(32)}, 100, &sum), "heap-buffer-overflow");
}

TEST(FreshMemoryTest, DeviceMemoryReadsAsNaN) {
  for (const size_t count : {size_t{1}, size_t{25}, size_t{100000}}) {
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, count * sizeof(float)), cudaSuccess);
    for (size_t i = 0; i < count; ++i) ASSERT_TRUE(std::isnan(static_cast<float*>(memory)[i]));
    std::memset(memory, 0, count * sizeof(float));  // its next owner must not see zeros
    ASSERT_EQ(cudaFree(memory), cudaSuccess);
  }
}

// A block does not see the shared memory of an earlier block.
__global__ void ReadThenWrite(float* out) {
  ZEROTH_SHARED(float, fixed, [32]);
  ZEROTH_DYNAMIC_SHARED(float, dynamic);
  out[(blockIdx.x * 2 + 0) * 32 + threadIdx.x] = fixed[threadIdx.x];
  out[(blockIdx.x * 2 + 1) * 32 + threadIdx.x] = dynamic[threadIdx.x];
  fixed[threadIdx.x] = 0;
  dynamic[threadIdx.x] = 0;
}

TEST(FreshMemoryTest, SharedMemoryReadsAsNaNInEveryBlock) {
  std::vector<float> out(3 * 2 * 32, 0.0f);
  RunKernel(ReadThenWrite, {dim3(3), dim3(32), 32 * sizeof(float)}, out.data());
  for (const float value : out) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace zeroth::cuda
