// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/call_ledger.h"

#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/world_state.h"

namespace zeroth {
namespace {

// A ledger of all ranks of a world, without threads.
class CallLedgerTest : public ::testing::Test {
 protected:
  void Start(int size) {
    world_ = std::make_shared<WorldState>(size, absl::Minutes(1));
    std::vector<int> ranks(static_cast<size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::lock_guard<std::mutex> lock(world_->mutex());
    ledger_ = std::make_unique<CallLedger>(world_, ranks, "all");
  }

  absl::Status Arrive(int rank, const std::string& label) {
    std::lock_guard<std::mutex> lock(world_->mutex());
    const auto index = ledger_->IssueLocked(rank);
    if (!index.ok()) return index.status();
    CollectiveCall call;
    call.operation = "barrier";
    call.index = *index;
    call.label = label;
    return ledger_->ArriveLocked(rank, call);
  }

  std::shared_ptr<WorldState> world_;
  std::unique_ptr<CallLedger> ledger_;
};

TEST_F(CallLedgerTest, ATimeoutOfManyRanksIsShort) {
  constexpr int kSize = 10'000;
  Start(kSize);
  for (int rank = 0; rank < kSize; ++rank) ASSERT_TRUE(Arrive(rank, "first").ok());
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank == 7 || rank % 1000 == 0) continue;
    ASSERT_TRUE(Arrive(rank, "second").ok());
  }
  std::lock_guard<std::mutex> lock(world_->mutex());
  ledger_->TimeOutLocked(1);
  const std::string message(world_->StatusLocked().message());
  EXPECT_TRUE(absl::StrContains(
      message,
      "in barrier 'second' (call 2) on all: missing ranks 0, 7, 1000, 2000, 3000, 4000, 5000, "
      "6000, 7000, 8000, 9000 (ranks 0, 7, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000: "
      "last completed barrier 'first' (call 1); ranks 1-6, 8-999, 1001-1999, 2001-2999, "))
      << message;
  EXPECT_TRUE(absl::EndsWith(message, "9001-9999: waiting in barrier 'second' (call 2))"))
      << message;
}

// A rank that has gone is noticed in the first call that lacks it, and not before.
TEST_F(CallLedgerTest, ADepartureIsAnErrorOnlyOfLaterCalls) {
  for (const bool returns : {false, true}) {
    Start(3);
    ASSERT_TRUE(Arrive(1, "last").ok());
    if (returns) {
      world_->RankReturned(1, absl::OkStatus());
    } else {
      std::lock_guard<std::mutex> lock(world_->mutex());
      ledger_->LeaveLocked(1);
      EXPECT_FALSE(ledger_->AllLeftLocked());
    }
    ASSERT_TRUE(Arrive(0, "last").ok());
    ASSERT_TRUE(Arrive(2, "last").ok());
    EXPECT_EQ(ledger_->completed(), 1u);
    EXPECT_EQ(Arrive(2, "one more"),
              absl::FailedPreconditionError(absl::StrCat(
                  returns ? "rank 1 has returned" : "rank 1 has destroyed its communicator",
                  " after its last operation, barrier 'last' (call 1), on all, while rank 2 waits "
                  "for it in barrier 'one more' (call 2)")));
    ledger_ = nullptr;
  }
}

TEST_F(CallLedgerTest, ADepartureEndsTheWaitOfOthers) {
  Start(3);
  ASSERT_TRUE(Arrive(2, "x").ok());
  world_->RankReturned(0, absl::OkStatus());
  EXPECT_EQ(world_->status(),
            absl::FailedPreconditionError("rank 0 has returned without a call on all, while rank 2 "
                                          "waits for it in barrier 'x' (call 1)"));
}

}  // namespace
}  // namespace zeroth
