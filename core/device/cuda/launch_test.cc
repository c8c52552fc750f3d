// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/launch.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth::cuda {
namespace {

TEST(SharedMemoryGrantsTest, AsksForMoreAndNeverForLess) {
  SharedMemoryGrants grants;
  std::vector<size_t> asked;
  const auto allow = [&](size_t bytes) {
    asked.push_back(bytes);
    return absl::OkStatus();
  };
  const int kernels[2] = {};
  // A size that fits only without static arrays must be requested, as one beyond the default must.
  EXPECT_TRUE(grants.Ensure(&kernels[0], 0, size_t{48} << 10, allow).ok());
  EXPECT_TRUE(grants.Ensure(&kernels[0], 0, 90000, allow).ok());
  EXPECT_TRUE(grants.Ensure(&kernels[0], 0, 60000, allow).ok());
  EXPECT_TRUE(grants.Ensure(&kernels[0], 0, 90000, allow).ok());
  EXPECT_EQ(asked, (std::vector<size_t>{size_t{48} << 10, 90000}));
  // Each kernel is allowed its size on each device.
  EXPECT_TRUE(grants.Ensure(&kernels[1], 0, 100, allow).ok());
  EXPECT_TRUE(grants.Ensure(&kernels[0], 1, 200, allow).ok());
  EXPECT_EQ(asked, (std::vector<size_t>{size_t{48} << 10, 90000, 100, 200}));
}

TEST(SharedMemoryGrantsTest, WhatIsRefusedIsAskedForAgain) {
  SharedMemoryGrants grants;
  const int kernel = 0;
  int asked = 0;
  const auto refuse = [&](size_t) {
    ++asked;
    return absl::InvalidArgumentError("too much");
  };
  EXPECT_EQ(grants.Ensure(&kernel, 0, 300000, refuse).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(grants.Ensure(&kernel, 0, 300000, refuse).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(asked, 2);
}

// Ranks of one process launch the same kernel with memory of different sizes at the same time: each
// must be allowed what it needs.
TEST(SharedMemoryGrantsTest, ThreadsDoNotTakeFromEachOther) {
  SharedMemoryGrants grants;
  const int kernel = 0;
  std::atomic<size_t> drivers{0};
  std::atomic<int> short_of{0};
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      for (size_t i = 1; i <= 200; ++i) {
        const size_t bytes = (rank + 1) * 100 + i * 7 % 97;
        const absl::Status allowed = grants.Ensure(&kernel, 0, bytes, [&](size_t most) {
          drivers = most;
          return absl::OkStatus();
        });
        if (!allowed.ok() || drivers < bytes) ++short_of;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(short_of, 0);
}

TEST(CheckLaunchShapeTest, SaysWhichLimitIsBroken) {
  const auto check = [](dim3 grid, dim3 block, size_t shared) {
    return CheckLaunchShape("K", {grid, block, shared}, size_t{99} << 10);
  };
  EXPECT_TRUE(check(dim3(0x7fffffff, 65535, 65535), dim3(1024), size_t{99} << 10).ok());
  EXPECT_EQ(check(dim3(1), dim3(1025), 0).message(),
            "kernel K: a block of 1025 x 1 x 1 threads; expected 1 to 1024, at most 64 of them "
            "deep");
  EXPECT_EQ(check(dim3(1, 65536), dim3(1), 0).message(),
            "kernel K: a grid of 1 x 65536 x 1 blocks; expected at most 2147483647 x 65535 x "
            "65535");
  EXPECT_EQ(check(dim3(1), dim3(1), (size_t{99} << 10) + 1).message(),
            "kernel K: 101377 bytes of shared memory; a block may have 101376");
}

}  // namespace
}  // namespace zeroth::cuda
