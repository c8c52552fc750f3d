// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/comm_stats.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

TEST(CollectiveBytesTest, FollowsTheBandwidthOptimalAlgorithm) {
  EXPECT_EQ(CollectiveBytes(CollectiveOp::kAllGather, 800, 4), 600);
  EXPECT_EQ(CollectiveBytes(CollectiveOp::kReduceScatter, 800, 8), 700);
  EXPECT_EQ(CollectiveBytes(CollectiveOp::kAllReduce, 800, 8), 1400);
  EXPECT_EQ(CollectiveBytes(CollectiveOp::kAllReduce, 10, 3), 13);
  EXPECT_EQ(CollectiveBytes(CollectiveOp::kBroadcast, 800, 8), 800);
  EXPECT_EQ(CollectiveBytes(CollectiveOp::kBarrier, 0, 8), 0);
  // Four times the largest buffer that fits in int64.
  EXPECT_EQ(CollectiveBytes(CollectiveOp::kAllReduce, int64_t{1} << 61, 2), int64_t{1} << 61);
}

TEST(CollectiveBytesTest, OneRankSendsNothing) {
  for (int op = 0; op < kCollectiveOpCount; ++op) {
    EXPECT_EQ(CollectiveBytes(static_cast<CollectiveOp>(op), 4096, 1), 0);
  }
}

TEST(CommStatsTest, CountsByOperation) {
  CommStats stats;
  stats.Add(CollectiveOp::kAllGather, 100, "a");
  stats.Add(CollectiveOp::kAllGather, 20, "b");
  stats.Add(CollectiveOp::kBarrier, 0, "c");
  EXPECT_EQ(stats[CollectiveOp::kAllGather].calls, 2);
  EXPECT_EQ(stats[CollectiveOp::kAllGather].bytes, 120);
  EXPECT_EQ(stats[CollectiveOp::kBarrier].calls, 1);
  EXPECT_EQ(stats[CollectiveOp::kReduceScatter].calls, 0);
}

TEST(CommStatsTest, RecordsOnlyWhileSwitchedOn) {
  CommStats stats;
  stats.Add(CollectiveOp::kAllGather, 1, "before");
  stats.EnableRecord(true);
  stats.Add(CollectiveOp::kAllGather, 2, "first");
  stats.Add(CollectiveOp::kAllReduce, 3, "second");
  std::vector<CommStats::Entry> record = stats.TakeRecord();
  ASSERT_EQ(record.size(), 2u);
  EXPECT_EQ(record[0].op, CollectiveOp::kAllGather);
  EXPECT_EQ(record[0].label, "first");
  EXPECT_EQ(record[0].bytes, 2);
  EXPECT_EQ(record[1].label, "second");
  EXPECT_TRUE(stats.TakeRecord().empty());

  stats.Add(CollectiveOp::kAllReduce, 3, "third");
  stats.EnableRecord(false);
  stats.Add(CollectiveOp::kAllReduce, 3, "after");
  record = stats.TakeRecord();
  ASSERT_EQ(record.size(), 1u);
  EXPECT_EQ(record[0].label, "third");
}

TEST(CommStatsTest, ThreadsMayAddAtOnce) {
  CommStats stats;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&stats] {
      for (int call = 0; call < 100; ++call) stats.Add(CollectiveOp::kBroadcast, 3, "x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stats[CollectiveOp::kBroadcast].calls, 400);
  EXPECT_EQ(stats[CollectiveOp::kBroadcast].bytes, 1200);
}

TEST(CommStatsTest, SequencesOrderCallsOfDifferentCommunicators) {
  CommStats gathers;
  CommStats reductions;
  gathers.EnableRecord(true);
  reductions.EnableRecord(true);
  gathers.Add(CollectiveOp::kAllGather, 1, "a");
  reductions.Add(CollectiveOp::kReduceScatter, 1, "b");
  gathers.Add(CollectiveOp::kAllGather, 1, "c");
  const std::vector<CommStats::Entry> gathered = gathers.TakeRecord();
  const std::vector<CommStats::Entry> reduced = reductions.TakeRecord();
  EXPECT_LT(gathered[0].sequence, reduced[0].sequence);
  EXPECT_LT(reduced[0].sequence, gathered[1].sequence);
}

}  // namespace
}  // namespace zeroth
