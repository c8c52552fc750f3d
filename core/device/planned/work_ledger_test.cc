// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/planned/work_ledger.h"

#include "gtest/gtest.h"

namespace zeroth {
namespace {

double EndOf(const WorkLedger& ledger, int entry) {
  return ledger.entries()[static_cast<size_t>(entry)].end;
}

TEST(WorkLedgerTest, AStreamRunsInOrder) {
  WorkLedger ledger;
  const int stream = ledger.AddStream();
  const int first = ledger.Add(stream, {"a", Resource::kCompute, 2});
  const int second = ledger.Add(stream, {"b", Resource::kCompute, 3, 0.5});
  ledger.Run();
  EXPECT_DOUBLE_EQ(EndOf(ledger, first), 2);
  EXPECT_DOUBLE_EQ(EndOf(ledger, second), 5.5);
}

TEST(WorkLedgerTest, StreamsRunBesideEachOther) {
  WorkLedger ledger;
  const int compute = ledger.Add(ledger.AddStream(), {"a", Resource::kCompute, 2});
  const int send = ledger.Add(ledger.AddStream(), {"b", Resource::kLink, 3});
  ledger.Run();
  EXPECT_DOUBLE_EQ(EndOf(ledger, compute), 2);
  EXPECT_DOUBLE_EQ(EndOf(ledger, send), 3);
}

TEST(WorkLedgerTest, EventsOrderStreams) {
  WorkLedger ledger;
  const int compute = ledger.AddStream();
  const int gather = ledger.AddStream();
  const int gathered = ledger.Add(gather, {"gather", Resource::kLink, 3});
  ledger.Add(compute, {"before", Resource::kCompute, 1});
  const int after = ledger.Add(compute, {"after", Resource::kCompute, 1}, gathered);
  ledger.Run();
  EXPECT_DOUBLE_EQ(ledger.entries()[static_cast<size_t>(after)].begin, 3);
  EXPECT_DOUBLE_EQ(EndOf(ledger, after), 4);
}

// Two collectives on one link share it equally; the longer one has it alone at the end.
TEST(WorkLedgerTest, ALinkIsShared) {
  WorkLedger ledger;
  const int shorter = ledger.Add(ledger.AddStream(), {"gather", Resource::kLink, 1});
  const int longer = ledger.Add(ledger.AddStream(), {"reduce", Resource::kLink, 3});
  ledger.Run();
  EXPECT_DOUBLE_EQ(EndOf(ledger, shorter), 2);
  EXPECT_DOUBLE_EQ(EndOf(ledger, longer), 4);
}

TEST(WorkLedgerTest, LatencyIsNotShared) {
  WorkLedger ledger;
  const int one = ledger.Add(ledger.AddStream(), {"gather", Resource::kLink, 1, 1});
  const int other = ledger.Add(ledger.AddStream(), {"reduce", Resource::kLink, 1, 5});
  ledger.Run();
  EXPECT_DOUBLE_EQ(EndOf(ledger, one), 2);
  EXPECT_DOUBLE_EQ(EndOf(ledger, other), 6);
}

// A collective's kernel occupies its part of the device, also during its latency.
TEST(WorkLedgerTest, ComputeIsSlowerWhileACollectiveIsUnderWay) {
  WorkLedger ledger(/*beside_collectives=*/0.75);
  const int compute = ledger.Add(ledger.AddStream(), {"a", Resource::kCompute, 6});
  const int gather =
      ledger.Add(ledger.AddStream(), {"gather", Resource::kLink, 1, 3, "all_gather"});
  ledger.Run();
  EXPECT_DOUBLE_EQ(EndOf(ledger, gather), 4);
  // Compute runs at three quarters of its speed for four seconds, and then alone.
  EXPECT_DOUBLE_EQ(EndOf(ledger, compute), 7);
}

TEST(WorkLedgerTest, ACopyEngineLeavesComputeAlone) {
  WorkLedger ledger(/*beside_collectives=*/0.75);
  const int compute = ledger.Add(ledger.AddStream(), {"a", Resource::kCompute, 6});
  ledger.Add(ledger.AddStream(),
             {"gather", Resource::kLink, 1, 3, "all_gather", 0, /*by_copy_engine=*/true});
  ledger.Run();
  EXPECT_DOUBLE_EQ(EndOf(ledger, compute), 6);
}

TEST(WorkLedgerTest, WhatTheHostHasWaitedForComesBeforeTheRest) {
  WorkLedger ledger;
  const int compute = ledger.AddStream();
  const int gather = ledger.AddStream();
  const int step = ledger.Add(compute, {"step", Resource::kCompute, 2});
  ledger.HostWaits(step);
  const int next = ledger.Add(gather, {"gather", Resource::kLink, 1});
  ledger.Run();
  EXPECT_DOUBLE_EQ(EndOf(ledger, next), 3);
}

TEST(WorkLedgerTest, ClearForgets) {
  WorkLedger ledger;
  const int stream = ledger.AddStream();
  ledger.HostWaits(ledger.Add(stream, {"a", Resource::kCompute, 2}));
  ledger.Clear();
  EXPECT_EQ(ledger.epoch(), 1);
  EXPECT_EQ(ledger.Last(stream), WorkLedger::kNothing);
  const int entry = ledger.Add(stream, {"b", Resource::kCompute, 1});
  ledger.Run();
  EXPECT_DOUBLE_EQ(EndOf(ledger, entry), 1);
}

}  // namespace
}  // namespace zeroth
