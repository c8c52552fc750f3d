// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/memory_account.h"

#include <gtest/gtest.h>

#include "zeroth/core/device/memory.h"

namespace zeroth {
namespace {

TEST(MemoryAccountTest, PeakOfTotalIsThePeakOfTheSum) {
  MemoryAccount account;
  account.Allocated(100, MemoryCategory::kGradients);
  account.Freed(100, MemoryCategory::kGradients);
  account.Allocated(70, MemoryCategory::kActivations);
  const MemoryStats& stats = account.stats();
  EXPECT_EQ(stats[MemoryCategory::kGradients].current_bytes, 0);
  EXPECT_EQ(stats[MemoryCategory::kGradients].peak_bytes, 100);
  EXPECT_EQ(stats[MemoryCategory::kActivations].peak_bytes, 70);
  EXPECT_EQ(stats.total.current_bytes, 70);
  EXPECT_EQ(stats.total.peak_bytes, 100);  // 170 would be the sum of the peaks
  EXPECT_EQ(stats.total.allocations, 2);
  EXPECT_EQ(stats[MemoryCategory::kOptimizer].allocations, 0);
}

TEST(MemoryAccountTest, ResetPeaksStartsANewPhase) {
  MemoryAccount account;
  account.Allocated(100, MemoryCategory::kGradients);
  account.Allocated(50, MemoryCategory::kOptimizer);
  account.Freed(100, MemoryCategory::kGradients);
  account.ResetPeaks();
  EXPECT_EQ(account.stats()[MemoryCategory::kGradients].peak_bytes, 0);
  EXPECT_EQ(account.stats()[MemoryCategory::kOptimizer].peak_bytes, 50);
  EXPECT_EQ(account.stats().total.peak_bytes, 50);
  account.Allocated(10, MemoryCategory::kGradients);
  EXPECT_EQ(account.stats().total.peak_bytes, 60);
  EXPECT_EQ(account.stats().total.allocations, 3);
}

TEST(MemoryAccountTest, ReservedBytesAreSeparate) {
  MemoryAccount account;
  account.AddReserved(4096);
  account.AddReserved(-1024);
  EXPECT_EQ(account.stats().reserved_bytes, 3072);
  EXPECT_EQ(account.stats().total.current_bytes, 0);
}

TEST(MemoryAccountDeathTest, FreeingMoreThanIsInUseAborts) {
  MemoryAccount account;
  account.Allocated(8, MemoryCategory::kWorkspace);
  EXPECT_DEATH(account.Freed(9, MemoryCategory::kWorkspace), "invariant violated");
  EXPECT_DEATH(account.Freed(8, MemoryCategory::kGradients), "invariant violated");
  EXPECT_DEATH(account.AddReserved(-1), "invariant violated");
}

}  // namespace
}  // namespace zeroth
