// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/collective.h"

namespace zeroth {
namespace {

class CollectiveChecksTest : public ::testing::Test {
 protected:
  BufferView View(int64_t offset, int64_t count, DType dtype = DType::kFloat32) {
    return BufferView(memory_ + offset, count, dtype);
  }

  static void ExpectRefused(const absl::Status& status, const std::string& words) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  }

  float memory_[64] = {};
};

TEST_F(CollectiveChecksTest, AllGather) {
  EXPECT_TRUE(CheckAllGather(View(32, 4), View(0, 12), 1, 3).ok());
  EXPECT_TRUE(CheckAllGather(View(4, 4), View(0, 12), 1, 3).ok()) << "in place";
  EXPECT_TRUE(CheckAllGather({}, {}, 1, 3).ok()) << "nothing to gather";
  ExpectRefused(CheckAllGather(View(32, 5), View(0, 12), 1, 3),
                "recv.count is 12, expected send.count * size = 5 * 3");
  ExpectRefused(CheckAllGather(View(32, 4), View(0, 13), 1, 3), "recv.count is 13");
  ExpectRefused(CheckAllGather(View(32, 4), View(0, 12, DType::kInt32), 1, 3),
                "send is fp32 and recv is int32");
  ExpectRefused(CheckAllGather(View(0, 4), View(0, 12), 1, 3), "not its slice 1");
  ExpectRefused(CheckAllGather(View(32, -1), View(0, 12), 1, 3), "send.count is -1");
  ExpectRefused(CheckAllGather(BufferView(nullptr, 4, DType::kFloat32), View(0, 12), 1, 3),
                "send.data is null for 4 elements");
}

TEST_F(CollectiveChecksTest, ReduceScatter) {
  const auto check = [](const BufferView& send, const BufferView& recv, ReduceOp op,
                        bool accumulate) {
    return CheckReduceScatter(send, recv, op, accumulate, 1, 3);
  };
  EXPECT_TRUE(check(View(0, 12), View(32, 4), ReduceOp::kMean, false).ok());
  EXPECT_TRUE(check(View(0, 12), View(32, 4), ReduceOp::kMean, true).ok());
  EXPECT_TRUE(check(View(0, 12), View(4, 4), ReduceOp::kMax, false).ok()) << "in place";
  EXPECT_TRUE(check(View(0, 12, DType::kBFloat16), View(32, 4), ReduceOp::kSum, true).ok())
      << "unrounded";
  ExpectRefused(check(View(0, 12), View(32, 3), ReduceOp::kSum, false),
                "send.count is 12, expected recv.count * size = 3 * 3");
  ExpectRefused(check(View(0, 12), View(8, 4), ReduceOp::kSum, false), "not its slice 1");
  ExpectRefused(check(View(0, 12), View(4, 4), ReduceOp::kSum, true), "outside send");
  ExpectRefused(check(View(0, 12), View(32, 4), ReduceOp::kMax, true), "not defined for max");
  ExpectRefused(check(View(0, 12), View(32, 4, DType::kBFloat16), ReduceOp::kSum, false),
                "recv is bf16 and send is fp32");
  ExpectRefused(check(View(0, 12, DType::kInt32), View(32, 4), ReduceOp::kSum, false),
                "recv is fp32 and send is int32");
  ExpectRefused(
      check(View(0, 12, DType::kBFloat16), View(32, 4, DType::kBFloat16), ReduceOp::kSum, true),
      "accumulate needs an fp32 recv, got bf16");
  ExpectRefused(
      check(View(0, 12, DType::kInt64), View(32, 4, DType::kInt64), ReduceOp::kMean, false),
      "mean of int64");
}

TEST_F(CollectiveChecksTest, AllToAll) {
  EXPECT_TRUE(CheckAllToAll(View(0, 12), View(12, 12), 3).ok());
  EXPECT_TRUE(CheckAllToAll({}, {}, 3).ok()) << "nothing to send";
  ExpectRefused(CheckAllToAll(View(0, 12), View(12, 9), 3), "send.count is 12 and recv.count 9");
  ExpectRefused(CheckAllToAll(View(0, 10), View(12, 10), 3), "the same multiple of size = 3");
  EXPECT_TRUE(CheckAllToAll(View(0, 12), View(12, 5), 3, {{12, 0, 0}, {0, 5, 0}}).ok());
  ExpectRefused(CheckAllToAll(View(0, 12), View(12, 5), 3, {{12, 0, 0}, {0, 5}}),
                "recv_counts are [0, 5], expected one of at least 0 for each of 3 ranks");
  ExpectRefused(CheckAllToAll(View(0, 12), View(12, 5), 3, {{13, -1, 0}, {5, 0, 0}}),
                "send_counts are [13, -1, 0]");
  ExpectRefused(CheckAllToAll(View(0, 12), View(12, 5), 3, {{12, 0, 0}, {5, 1, 0}}), "5 together");
  ExpectRefused(CheckAllToAll(View(0, 12), View(6, 12), 3), "not in place");
  ExpectRefused(CheckAllToAll(View(0, 12), View(12, 12, DType::kInt32), 3),
                "send is fp32 and recv is int32");
  ExpectRefused(CheckAllToAll(BufferView(nullptr, 3, DType::kFloat32), View(12, 3), 3),
                "send.data is null");
}

TEST_F(CollectiveChecksTest, AllReduceAndBroadcast) {
  EXPECT_TRUE(CheckAllReduce(View(0, 12), ReduceOp::kMean).ok());
  ExpectRefused(CheckAllReduce(View(0, 12, DType::kUInt8), ReduceOp::kMean), "mean of uint8");
  EXPECT_TRUE(CheckBroadcast(View(0, 12), 2, 3).ok());
  ExpectRefused(CheckBroadcast(View(0, 12), 3, 3), "root is 3, expected a rank in [0, 3)");
  ExpectRefused(CheckBroadcast(View(0, 12), -1, 3), "root is -1");
}

}  // namespace
}  // namespace zeroth
