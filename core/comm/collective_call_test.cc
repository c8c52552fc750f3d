// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <functional>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/comm/collective.h"

namespace zeroth {
namespace {

CollectiveCall ReduceScatterCall() {
  CollectiveCall call;
  call.operation = "reduce_scatter";
  call.index = 16;
  call.count = 64;
  call.dtype = DType::kBFloat16;
  call.reduce = ReduceOp::kMean;
  call.label = "h.3";
  return call;
}

TEST(CollectiveCallTest, SaysWhatWasCalled) {
  EXPECT_EQ(ReduceScatterCall().ToString(), "reduce_scatter 'h.3' (call 17, 64 x bf16, mean)");

  CollectiveCall broadcast;
  broadcast.operation = "broadcast";
  broadcast.count = 0;
  broadcast.dtype = DType::kInt64;
  broadcast.root = 2;
  EXPECT_EQ(broadcast.ToString(), "broadcast (call 1, 0 x int64, root 2)");

  CollectiveCall barrier;
  barrier.operation = "barrier";
  barrier.label = "end";
  EXPECT_EQ(barrier.ToString(), "barrier 'end' (call 1)");
}

TEST(CollectiveCallTest, AnyDifferenceIsAMismatch) {
  EXPECT_EQ(ReduceScatterCall(), ReduceScatterCall());
  const std::vector<std::function<void(CollectiveCall&)>> changes = {
      [](CollectiveCall& call) { call.operation = "all_reduce"; },
      [](CollectiveCall& call) { call.index = 15; },
      [](CollectiveCall& call) { call.count = 63; },
      [](CollectiveCall& call) { call.dtype = DType::kFloat16; },
      [](CollectiveCall& call) { call.reduce = ReduceOp::kSum; },
      [](CollectiveCall& call) { call.root = 0; },
      [](CollectiveCall& call) { call.label = "h.4"; },
  };
  for (const auto& change : changes) {
    CollectiveCall other = ReduceScatterCall();
    change(other);
    EXPECT_NE(ReduceScatterCall(), other) << other.ToString();
  }
}

}  // namespace
}  // namespace zeroth
