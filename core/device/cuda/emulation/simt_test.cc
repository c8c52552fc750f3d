// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/emulation/test_stream.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/core/device/cuda/launch.h"

namespace zeroth::cuda {
namespace {

using emulation::RunKernel;

__global__ void WriteIndices(int* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  out[block * threads + thread] += static_cast<int>(block * threads + thread);
}

TEST(SimtTest, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> out(2 * 3 * 4 * 5 * 2 * 3, 0);
  RunKernel(WriteIndices, {dim3(2, 3, 4), dim3(5, 2, 3)}, out.data());
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], static_cast<int>(i));
}

// A tree sum in shared memory, wrong unless every barrier holds.
__global__ void SharedSum(const float* in, float* out) {
  ZEROTH_SHARED(float, values, [96]);
  ZEROTH_DYNAMIC_SHARED(float, scratch);
  values[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  scratch[threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
  __syncthreads();
  for (unsigned stride = 48; stride >= 3; stride /= 2) {
    if (threadIdx.x < stride) scratch[threadIdx.x] += scratch[threadIdx.x + stride];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = scratch[0] + scratch[1] + scratch[2];
}

TEST(SimtTest, BarriersAndSharedMemory) {
  std::vector<float> in(96 * 7);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 11);
  std::vector<float> out(7, 0.0f);
  RunKernel(SharedSum, {dim3(7), dim3(96), 96 * sizeof(float)}, in.data(), out.data());
  for (size_t block = 0; block < out.size(); ++block) {
    float expected = 0;
    for (size_t i = 0; i < 96; ++i) expected += in[block * 96 + i];
    EXPECT_EQ(out[block], expected);
  }
}

__global__ void Shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int* mine = out + threadIdx.x * 8;
  mine[0] = __shfl_sync(0xffffffffu, lane * 10, 5);
  mine[1] = __shfl_xor_sync(0xffffffffu, lane, 3);
  mine[2] = __shfl_down_sync(0xffffffffu, lane, 4u);
  mine[3] = __shfl_up_sync(0xffffffffu, lane, 4u);
  mine[4] = static_cast<int>(__ballot_sync(0xffffffffu, lane % 3 == 0));
  mine[5] = __any_sync(0xffffffffu, lane == 31);
  mine[6] = __all_sync(0xffffffffu, lane < 31);
  mine[7] = __shfl_xor_sync(0xffffffffu, lane, 8, 8);
}

TEST(SimtTest, WarpCollectives) {
  std::vector<int> out(64 * 8, -1);
  RunKernel(Shuffles, {dim3(1), dim3(64)}, out.data());
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32;
    const int* mine = out.data() + thread * 8;
    EXPECT_EQ(mine[0], 50);
    EXPECT_EQ(mine[1], lane ^ 3);
    EXPECT_EQ(mine[2], lane + 4 < 32 ? lane + 4 : lane);
    EXPECT_EQ(mine[3], lane >= 4 ? lane - 4 : lane);
    EXPECT_EQ(mine[4], 0x49249249);
    EXPECT_EQ(mine[5], 1);
    EXPECT_EQ(mine[6], 0);
    // Earlier groups can be read, later ones cannot.
    EXPECT_EQ(mine[7], (lane & 8) != 0 ? lane ^ 8 : lane);
  }
}

__global__ void Count(unsigned long long* sum, int* largest) {
  atomicAdd(sum, static_cast<unsigned long long>(threadIdx.x));
  atomicMax(largest, static_cast<int>(threadIdx.x));
}

TEST(SimtTest, Atomics) {
  unsigned long long sum = 0;
  int largest = -1;
  RunKernel(Count, {dim3(3), dim3(100)}, &sum, &largest);
  EXPECT_EQ(sum, 3u * 4950u);
  EXPECT_EQ(largest, 99);
}

__global__ void SomeLeaveEarly(int* out) {
  if (threadIdx.x >= 64) return;
  __syncthreads();
  out[threadIdx.x] = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x), 0);
}

__global__ void HalfAWarp() {
  if (threadIdx.x < 16) __shfl_sync(0xffffffffu, 1, 0);
}

TEST(SimtDeathTest, ThreadsThatDivergeAreCounted) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(RunKernel(HalfAWarp, {dim3(1), dim3(32)}), "16 in a warp collective, 16 have ended");
}

TEST(SimtTest, ThreadsThatHaveEndedDoNotHoldUpABarrier) {
  std::vector<int> out(64, -1);
  RunKernel(SomeLeaveEarly, {dim3(1), dim3(128)}, out.data());
  for (int thread = 0; thread < 64; ++thread) EXPECT_EQ(out[thread], thread / 32 * 32);
}

TEST(SimtTest, AnEmptyGridRunsNothingAndBadShapesAreNamed) {
  int out = 0;
  RunKernel(WriteIndices, {dim3(0), dim3(32)}, &out);
  EXPECT_EQ(out, 0);
  const absl::Status status =
      ZEROTH_LAUNCH(WriteIndices, (LaunchShape{dim3(1), dim3(2048)}), nullptr, &out);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("WriteIndices"), std::string::npos);
  EXPECT_EQ(
      ZEROTH_LAUNCH(WriteIndices, (LaunchShape{dim3(1), dim3(1), 300000}), nullptr, &out).code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zeroth::cuda
