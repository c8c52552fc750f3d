// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests of ranks that disagree, fail or do not call. See communicator_test_suite.h.

#pragma once

#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/ranks_text.h"
#include "zeroth/core/comm/testing/communicator_test_fixture.h"

namespace zeroth::testing {

// The last rank calls `odd`, all others call `usual`, after a first call that matches; both get a
// buffer of 8 * size floats. Every rank must get a FailedPrecondition with `words`.
using CollectiveOnBuffer = std::function<absl::Status(TestRank&, const Tensor&)>;
inline absl::Status CheckMismatch(TestRank& rank, const CollectiveOnBuffer& usual,
                                  const CollectiveOnBuffer& odd, std::vector<std::string> words) {
  const std::vector<float> ones(static_cast<size_t>(8 * rank.size()), 1.0f);
  ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer, ToDevice(rank.device, ones));
  const int last = rank.size() - 1;
  // Where others may have gone on before this returns, it may return their error.
  absl::Status status = rank.world.AllReduce(buffer, ReduceOp::kSum, rank.stream, "fine");
  status.Update(rank.rank() == last ? odd(rank, buffer) : usual(rank, buffer));
  status.Update(rank.stream.Synchronize());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  words.push_back(absl::StrCat("rank ", last, " called"));
  words.push_back("do not match");
  words.push_back("(call 2");
  ExpectWords(status, words);
  // The message names one of the other ranks.
  bool names_another = false;
  for (int r = 0; r < last; ++r) {
    names_another |= absl::StrContains(status.message(), absl::StrCat("rank ", r, " called"));
  }
  EXPECT_TRUE(names_another) << status;
  EXPECT_FALSE(rank.world.status().ok());
  return absl::OkStatus();
}

TEST_P(CommunicatorTest, AnotherOperationIsAMismatch) {
  if (size() == 1) GTEST_SKIP() << "one rank cannot differ";
  ExpectAllOk([](TestRank& rank) {
    const auto all_gather = [](TestRank& r, const Tensor& buffer) {
      return r.world.AllGather(buffer.View(8 * r.rank(), Shape({8})), buffer, r.stream, "h.3");
    };
    const auto reduce_scatter = [](TestRank& r, const Tensor& buffer) {
      return r.world.ReduceScatter(buffer, buffer.View(8 * r.rank(), Shape({8})), ReduceOp::kMean,
                                   r.stream, "h.4");
    };
    return CheckMismatch(
        rank, all_gather, reduce_scatter,
        {"all_gather 'h.3' (call 2, 8 x fp32)", "reduce_scatter 'h.4' (call 2, 8 x fp32, mean)"});
  });
}

TEST_P(CommunicatorTest, AnotherCountOfOneOfSeveralGathersIsAMismatch) {
  if (size() == 1) GTEST_SKIP() << "one rank cannot differ";
  ExpectAllOk([](TestRank& rank) {
    const auto gather = [](int64_t count) {
      return [count](TestRank& r, const Tensor& buffer) {
        const Tensor full = buffer.View(0, Shape({count * r.size()}));
        const GatherBuffers one = {full.View(count * r.rank(), Shape({count})), full};
        const Tensor other = buffer.View(4 * r.size(), Shape({4 * r.size()}));
        return r.world.AllGatherAll({one, {other.View(4 * r.rank(), Shape({4})), other}}, r.stream,
                                    "h.8");
      };
    };
    return CheckMismatch(rank, gather(4), gather(3),
                         {"'h.8' (call 2, 4 x fp32)", "'h.8' (call 2, 3 x fp32)"});
  });
}

TEST_P(CommunicatorTest, AnotherCountOfOneOfSeveralReductionsIsAMismatch) {
  if (size() == 1) GTEST_SKIP() << "one rank cannot differ";
  ExpectAllOk([](TestRank& rank) {
    const auto reduce = [](int64_t count) {
      return [count](TestRank& r, const Tensor& buffer) {
        const Tensor full = buffer.View(0, Shape({count * r.size()}));
        const ReductionBuffers one = {full, full.View(count * r.rank(), Shape({count}))};
        const Tensor other = buffer.View(4 * r.size(), Shape({4 * r.size()}));
        return r.world.ReduceScatterAll({one, {other, other.View(4 * r.rank(), Shape({4}))}},
                                        ReduceOp::kSum, r.stream, "h.8");
      };
    };
    return CheckMismatch(rank, reduce(4), reduce(3),
                         {"'h.8' (call 2, 4 x fp32, sum)", "'h.8' (call 2, 3 x fp32, sum)"});
  });
}

TEST_P(CommunicatorTest, AnotherCountIsAMismatch) {
  if (size() == 1) GTEST_SKIP() << "one rank cannot differ";
  ExpectAllOk([](TestRank& rank) {
    const auto reduce = [](int64_t count) {
      return [count](TestRank& r, const Tensor& buffer) {
        return r.world.AllReduce(buffer.View(0, Shape({count})), ReduceOp::kSum, r.stream, "wte");
      };
    };
    return CheckMismatch(rank, reduce(7), reduce(6),
                         {"'wte' (call 2, 7 x fp32", "'wte' (call 2, 6 x fp32"});
  });
}

TEST_P(CommunicatorTest, AnotherDTypeIsAMismatch) {
  if (size() == 1) GTEST_SKIP() << "one rank cannot differ";
  ExpectAllOk([](TestRank& rank) {
    const auto reduce = [](DType dtype) {
      return [dtype](TestRank& r, const Tensor& buffer) {
        return r.world.AllReduce(BufferView(buffer.raw_data(), 8, dtype), ReduceOp::kSum, r.stream,
                                 "norm");
      };
    };
    return CheckMismatch(rank, reduce(DType::kFloat32), reduce(DType::kInt32),
                         {"8 x fp32, sum", "8 x int32, sum", "'norm'"});
  });
}

TEST_P(CommunicatorTest, AnotherReductionIsAMismatch) {
  if (size() == 1) GTEST_SKIP() << "one rank cannot differ";
  ExpectAllOk([](TestRank& rank) {
    const auto reduce = [](ReduceOp op) {
      return [op](TestRank& r, const Tensor& buffer) {
        return r.world.AllReduce(buffer, op, r.stream, "loss");
      };
    };
    return CheckMismatch(rank, reduce(ReduceOp::kMean), reduce(ReduceOp::kMax),
                         {", mean)", ", max)", "'loss'"});
  });
}

TEST_P(CommunicatorTest, AnotherRootIsAMismatch) {
  if (size() == 1) GTEST_SKIP() << "one rank cannot differ";
  ExpectAllOk([](TestRank& rank) {
    const auto broadcast = [](int root) {
      return [root](TestRank& r, const Tensor& buffer) {
        return r.world.Broadcast(buffer, root, r.stream, "init");
      };
    };
    return CheckMismatch(rank, broadcast(0), broadcast(1), {"root 0", "root 1", "'init'"});
  });
}

TEST_P(CommunicatorTest, AnotherOrderIsAMismatch) {
  if (size() == 1) GTEST_SKIP() << "one rank cannot differ";
  ExpectAllOk([](TestRank& rank) {
    const auto reduce_two = [](std::string first, std::string second) {
      return [first, second](TestRank& r, const Tensor& buffer) {
        absl::Status status = r.world.AllReduce(buffer, ReduceOp::kSum, r.stream, first);
        status.Update(r.world.AllReduce(buffer, ReduceOp::kSum, r.stream, second));
        return status;
      };
    };
    return CheckMismatch(rank, reduce_two("h.0", "h.1"), reduce_two("h.1", "h.0"),
                         {"all_reduce 'h.0' (call 2", "all_reduce 'h.1' (call 2"});
  });
}

TEST_P(CommunicatorTest, WrongArgumentsOfOneRankFailAll) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    const bool bad = rank.rank() == rank.size() - 1;
    ZEROTH_ASSIGN_OR_RETURN(
        const Tensor full,
        ToDevice(rank.device, std::vector<float>(static_cast<size_t>(4 * rank.size()))));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor piece,
                            ToDevice(rank.device, std::vector<float>(bad ? 5 : 4)));
    absl::Status status = rank.world.AllGather(piece, full, rank.stream, "h.7");
    status.Update(rank.stream.Synchronize());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    ExpectWords(status, {absl::StrCat("rank ", rank.size() - 1, " failed"), "all_gather 'h.7'",
                         absl::StrCat("recv.count is ", 4 * rank.size()),
                         absl::StrCat("send.count * size = 5 * ", rank.size())});
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, AfterAnErrorEverythingReturnsIt) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto split, rank.world.Split(rank.rank(), 0));
    if (rank.rank() == 0) {
      rank.world.Abort(absl::DataLossError("disk on fire"));
    } else {
      SleepUntilBroken(rank.world);
    }
    const absl::Status broken = rank.world.status();
    EXPECT_EQ(broken.code(), absl::StatusCode::kDataLoss);
    ExpectWords(broken, {"rank 0 aborted", "disk on fire"});
    ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer, ToDevice(rank.device, std::vector<float>(4)));
    EXPECT_EQ(rank.world.AllReduce(buffer, ReduceOp::kSum, rank.stream, "after"), broken);
    EXPECT_EQ(rank.world.Barrier(rank.stream, "after"), broken);
    EXPECT_EQ(rank.world.Split(0, 0).status(), broken);
    EXPECT_EQ(split->status(), broken);
    EXPECT_EQ(split->AllReduce(buffer, ReduceOp::kSum, rank.stream, "after"), broken);
    // A later reason does not replace the first.
    split->Abort(absl::InternalError("second thoughts"));
    EXPECT_EQ(rank.world.status(), broken);
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, AbortReleasesThoseWhoWait) {
  if (size() == 1) GTEST_SKIP() << "nobody to wait for";
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto other, rank.world.Duplicate());
    if (rank.rank() == 0) {
      SleepFor(3000);
      // From a thread that makes no calls, on a communicator in which no rank waits.
      std::thread([&] { other->Abort(absl::ResourceExhaustedError("no memory left")); }).join();
      return absl::OkStatus();
    }
    absl::Status status = rank.world.Barrier(rank.stream, "never");
    status.Update(rank.stream.Synchronize());
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    ExpectWords(status, {"rank 0 aborted", "no memory left"});
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, ARankThatReturnsAnErrorReleasesTheOthersWithIt) {
  const int culprit = size() / 2;
  const absl::Status status = Launch([culprit](TestRank& rank) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(rank.world.Barrier(rank.stream, "together"));
    ZEROTH_RETURN_IF_ERROR(rank.stream.Synchronize());
    if (rank.rank() == culprit) {
      SleepFor(2000);
      return absl::OutOfRangeError("token 50257 is outside the vocabulary");
    }
    absl::Status secondary = rank.world.Barrier(rank.stream, "alone");
    secondary.Update(rank.stream.Synchronize());
    EXPECT_EQ(secondary.code(), absl::StatusCode::kOutOfRange);
    ExpectWords(secondary, {absl::StrCat("rank ", culprit, " failed"), "token 50257"});
    return Annotate(secondary, "training step 1");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(),
            absl::StrCat("rank ", culprit, " failed: token 50257 is outside the vocabulary"));
}

TEST_P(CommunicatorTest, ARankThatThrowsReleasesTheOthers) {
  const absl::Status status = Launch([](TestRank& rank) -> absl::Status {
    if (rank.rank() == rank.size() - 1) throw std::runtime_error("unexpected end of the world");
    absl::Status secondary = rank.world.Barrier(rank.stream, "alone");
    secondary.Update(rank.stream.Synchronize());
    EXPECT_EQ(secondary.code(), absl::StatusCode::kInternal);
    return secondary;
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  ExpectWords(status,
              {absl::StrCat("rank ", size() - 1, " failed"), "unexpected end of the world"});
}

TEST_P(CommunicatorTest, ARankThatReturnsEarlyIsNotWaitedFor) {
  if (size() == 1) GTEST_SKIP() << "nobody to wait for";
  for (bool returns_first : {false, true}) {
    const absl::Status status = Launch([returns_first](TestRank& rank) -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer, ToDevice(rank.device, std::vector<float>(4)));
      ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kSum, rank.stream, "h.0"));
      ZEROTH_RETURN_IF_ERROR(rank.stream.Synchronize());
      if (rank.rank() == 1) {
        SleepFor(returns_first ? 0 : 3000);
        return absl::OkStatus();
      }
      SleepFor(returns_first ? 3000 : 0);
      ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kSum, rank.stream, "h.1"));
      return rank.stream.Synchronize();
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    ExpectWords(status, {"rank 1 has returned after its last operation, all_reduce 'h.0' (call 1",
                         "all_reduce 'h.1' (call 2"});
  }
}

TEST_P(CommunicatorTest, ADestroyedCommunicatorIsNotWaitedFor) {
  if (size() == 1) GTEST_SKIP() << "nobody to wait for";
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(auto other, rank.world.Duplicate());
    if (rank.rank() == 1) {
      other.reset();
      SleepUntilBroken(rank.world);
      return absl::OkStatus();
    }
    absl::Status status = other->Barrier(rank.stream, "end");
    status.Update(rank.stream.Synchronize());
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    ExpectWords(status, {"rank 1 has destroyed its communicator without a call", "barrier 'end'"});
    return absl::OkStatus();
  });
}

// Calls that were enqueued before the communicator was destroyed still run.
TEST_P(CommunicatorTest, EnqueuedCallsOutliveTheirCommunicator) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(auto other, rank.world.Duplicate());
    ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer, ToDevice(rank.device, std::vector<int32_t>{1}));
    SleepFor(rank.rank() == 0 ? 3000 : 0);
    ZEROTH_RETURN_IF_ERROR(other->AllReduce(buffer, ReduceOp::kSum, rank.stream, "last"));
    other.reset();
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> sum, Fetch<int32_t>(buffer, rank.stream));
    EXPECT_EQ(sum[0], rank.size());
    return absl::OkStatus();
  });
}

// Launches with ever longer timeouts until the error has `words`: on a loaded machine, ranks that
// are only slow to start miss a short one too.
inline absl::Status LaunchUntil(const std::vector<std::string>& words,
                                const std::function<absl::Status(absl::Duration)>& launch) {
  for (absl::Duration timeout = absl::Milliseconds(50);; timeout *= 4) {
    const absl::Status status = launch(timeout);
    bool complete = true;
    for (const std::string& word : words) complete &= absl::StrContains(status.message(), word);
    if (complete || timeout > absl::Seconds(10)) return status;
  }
}

TEST_P(CommunicatorTest, TimeoutNamesTheMissingAndEverybodysLastCall) {
  if (size() == 1) GTEST_SKIP() << "nobody to wait for";
  const int missing = size() - 1;
  const auto main = [missing](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer, ToDevice(rank.device, std::vector<float>(4)));
    ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kSum, rank.stream, "h.3"));
    ZEROTH_RETURN_IF_ERROR(rank.stream.Synchronize());
    if (rank.rank() == missing) {
      SleepUntilBroken(rank.world);
      return rank.world.status();
    }
    absl::Status status = rank.world.Broadcast(buffer, 0, rank.stream, "h.4");
    status.Update(rank.stream.Synchronize());
    EXPECT_EQ(status, rank.world.status());
    return status;
  };
  std::vector<int> waiting(static_cast<size_t>(missing));
  std::iota(waiting.begin(), waiting.end(), 0);
  const std::vector<std::string> words = {
      "timeout after", "in broadcast 'h.4' (call 2, 4 x fp32, root 0)",
      absl::StrCat("missing rank ", missing, " ("),
      absl::StrCat(RanksText(waiting), ": waiting in broadcast 'h.4'"),
      absl::StrCat("rank ", missing, ": last completed all_reduce 'h.3' (call 1")};
  const absl::Status status =
      LaunchUntil(words, [&](absl::Duration timeout) { return Launch(main, timeout); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  ExpectWords(status, words);
}

TEST_P(CommunicatorTest, TimeoutInSplit) {
  if (size() == 1) GTEST_SKIP() << "nobody to wait for";
  const auto main = [](TestRank& rank) -> absl::Status {
    if (rank.rank() == 0) {
      SleepUntilBroken(rank.world);
      return absl::OkStatus();
    }
    return rank.world.Split(0, 0).status();
  };
  const std::vector<std::string> words = {"split (call 1)", "missing rank 0",
                                          "rank 0: no call yet"};
  const absl::Status status =
      LaunchUntil(words, [&](absl::Duration timeout) { return Launch(main, timeout); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  ExpectWords(status, words);
}

}  // namespace zeroth::testing
