// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests of registered memory. See communicator_test_suite.h.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/comm/testing/communicator_test_fixture.h"

namespace zeroth::testing {

TEST_P(CommunicatorTest, RegisteredMemoryGetsTheSameBytes) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto group, rank.world.SplitForGathers(0, rank.rank()));
    const int64_t all = 1003 * group->size();
    ZEROTH_ASSIGN_OR_RETURN(const Tensor memory, TransportFloats(rank, all + 17));
    ZEROTH_ASSIGN_OR_RETURN(const auto registration, group->Register(memory, "memory"));
    uint64_t seed = 1;
    for (const bool in_place : {true, false}) {
      for (const int64_t offset : {int64_t{0}, int64_t{17}}) {
        ZEROTH_RETURN_IF_ERROR(
            CheckGatherInto(rank, *group, memory.View(offset, Shape({all})), ++seed, in_place));
      }
      ZEROTH_ASSIGN_OR_RETURN(const Tensor other, TransportFloats(rank, all));
      ZEROTH_RETURN_IF_ERROR(CheckGatherInto(rank, *group, other, ++seed, in_place));
    }
    // Calls on other memory work as before.
    ZEROTH_RETURN_IF_ERROR(
        group->AllReduce(memory.View(0, Shape({5})), ReduceOp::kMean, rank.stream, "mean"));
    return rank.stream.Synchronize();
  });
}

TEST_P(CommunicatorTest, RegistrationsComeAndGo) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(auto group, rank.world.SplitForGathers(0, rank.rank()));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor kept, TransportFloats(rank, 64 * group->size()));
    ZEROTH_ASSIGN_OR_RETURN(auto of_kept, group->Register(kept, "kept"));
    for (uint64_t round = 0; round < 3; ++round) {
      ZEROTH_ASSIGN_OR_RETURN(
          const Tensor passing,
          TransportFloats(rank, (7 + static_cast<int64_t>(round)) * group->size()));
      ZEROTH_ASSIGN_OR_RETURN(const auto of_passing, group->Register(passing, "passing"));
      ZEROTH_RETURN_IF_ERROR(CheckGatherInto(rank, *group, passing, 2 * round, /*in_place=*/true));
      ZEROTH_RETURN_IF_ERROR(CheckGatherInto(rank, *group, kept, 2 * round + 1, /*in_place=*/true));
      // Ranks deregister independently: no rank waits here for another.
      if (rank.rank() == 0) SleepFor(2000);
    }
    // Two groups may register the same memory, and a group may be destroyed before its
    // registration.
    ZEROTH_ASSIGN_OR_RETURN(const auto second, rank.world.Duplicate());
    ZEROTH_ASSIGN_OR_RETURN(const auto of_second, second->Register(kept, "kept again"));
    ZEROTH_RETURN_IF_ERROR(CheckGatherInto(rank, *second, kept, 9, /*in_place=*/false));
    group.reset();
    of_kept.reset();
    return CheckGatherInto(rank, *second, kept, 10, /*in_place=*/true);
  });
}

TEST_P(CommunicatorTest, AnotherSizeOfRegisteredMemoryIsAMismatch) {
  if (size() == 1) GTEST_SKIP() << "one rank cannot differ";
  std::atomic<bool> has_memory{true};
  const absl::Status status = Launch([&](TestRank& rank) -> absl::Status {
    if (!rank.device.allocator().has_transport_memory()) {
      has_memory = false;
      return absl::OkStatus();
    }
    ZEROTH_ASSIGN_OR_RETURN(const Tensor memory, TransportFloats(rank, rank.rank() == 1 ? 9 : 8));
    return rank.world.Register(memory, "gathered").status();
  });
  if (!has_memory) {
    EXPECT_TRUE(status.ok()) << status;
    GTEST_SKIP() << "this back end registers no memory";
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  ExpectWords(status, {"register_memory 'gathered' (call 1, 32 x uint8)",
                       "register_memory 'gathered' (call 1, 36 x uint8)"});
}

}  // namespace zeroth::testing
