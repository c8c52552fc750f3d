// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests of the results of collectives. See communicator_test_suite.h.

#pragma once

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/comm/testing/communicator_test_fixture.h"
#include "zeroth/core/comm/testing/reduction_reference.h"

namespace zeroth::testing {

// Nothing, one, below and above a cache line, odd; and, for one type, because references are slow,
// more than one block of any implementation.
template <typename T>
std::vector<int64_t> SuiteCounts() {
  std::vector<int64_t> counts = {0, 1, 13, 257};
  if (std::is_same_v<T, float>) counts.push_back(20011);
  return counts;
}

template <typename T>
std::vector<T> Concatenate(const std::vector<std::vector<T>>& pieces) {
  std::vector<T> all;
  for (const auto& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
  return all;
}

// Elements [begin, begin + count) of the reduction.
template <typename T>
std::vector<T> ExpectedReduction(ReduceOp op, const std::vector<std::vector<T>>& ranks,
                                 int64_t begin, int64_t count) {
  std::vector<T> expected;
  std::vector<T> column(ranks.size());
  for (int64_t i = begin; i < begin + count; ++i) {
    for (size_t r = 0; r < ranks.size(); ++r) column[r] = ranks[r][static_cast<size_t>(i)];
    expected.push_back(ReferenceReduce<T>(op, column));
  }
  return expected;
}

template <typename T>
absl::Status CheckAllGatherOf(TestRank& rank, int64_t count, bool in_place, Stream& stream) {
  const auto pieces = TestValuesOfAll<T>(1, rank.size(), count);
  const auto& mine = pieces[static_cast<size_t>(rank.rank())];
  std::vector<T> initial(static_cast<size_t>(count * rank.size()));
  if (in_place) std::copy(mine.begin(), mine.end(), initial.begin() + rank.rank() * count);
  ZEROTH_ASSIGN_OR_RETURN(const Tensor full, ToDevice(rank.device, initial));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor apart, ToDevice(rank.device, mine));
  const Tensor send = in_place ? full.View(rank.rank() * count, Shape({count})) : apart;
  ZEROTH_RETURN_IF_ERROR(rank.world.AllGather(send, full, stream, "gather"));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<T> gathered, Fetch<T>(full, stream));
  ExpectSameBits(gathered, Concatenate(pieces));
  return absl::OkStatus();
}

template <typename T>
absl::Status CheckReduceScatterOf(TestRank& rank, int64_t count, ReduceOp op, bool in_place) {
  const int64_t total = count * rank.size();
  const auto sends = TestValuesOfAll<T>(2, rank.size(), total);
  const auto& mine = sends[static_cast<size_t>(rank.rank())];
  ZEROTH_ASSIGN_OR_RETURN(const Tensor full, ToDevice(rank.device, mine));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor apart,
                          ToDevice(rank.device, std::vector<T>(static_cast<size_t>(count))));
  const Tensor recv = in_place ? full.View(rank.rank() * count, Shape({count})) : apart;
  ZEROTH_RETURN_IF_ERROR(rank.world.ReduceScatter(full, recv, op, rank.stream, "scatter"));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<T> reduced, Fetch<T>(recv, rank.stream));
  const auto expected = ExpectedReduction(op, sends, rank.rank() * count, count);
  ExpectSameBits(reduced, expected);

  std::vector<T> send_after = mine;
  if (in_place)
    std::copy(expected.begin(), expected.end(), send_after.begin() + rank.rank() * count);
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<T> send_now, full.ToHost<T>());
  ExpectSameBits(send_now, send_after);
  return absl::OkStatus();
}

template <typename T>
absl::Status CheckAllReduceOf(TestRank& rank, int64_t count, ReduceOp op) {
  const auto sends = TestValuesOfAll<T>(3, rank.size(), count);
  ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                          ToDevice(rank.device, sends[static_cast<size_t>(rank.rank())]));
  ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, op, rank.stream, "reduce"));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<T> reduced, Fetch<T>(buffer, rank.stream));
  ExpectSameBits(reduced, ExpectedReduction(op, sends, 0, count));
  return absl::OkStatus();
}

// Piece p of rank r's send is piece r of rank p's recv.
template <typename T>
absl::Status CheckAllToAllOf(TestRank& rank, int64_t count) {
  const int64_t total = count * rank.size();
  const auto sends = TestValuesOfAll<T>(4, rank.size(), total);
  ZEROTH_ASSIGN_OR_RETURN(const Tensor send,
                          ToDevice(rank.device, sends[static_cast<size_t>(rank.rank())]));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor recv,
                          ToDevice(rank.device, std::vector<T>(static_cast<size_t>(total))));
  ZEROTH_RETURN_IF_ERROR(rank.world.AllToAll(send, recv, rank.stream, "exchange"));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<T> received, Fetch<T>(recv, rank.stream));
  std::vector<T> expected;
  for (const std::vector<T>& sent : sends) {
    const auto piece = sent.begin() + rank.rank() * count;
    expected.insert(expected.end(), piece, piece + count);
  }
  ExpectSameBits(received, expected);
  return absl::OkStatus();
}

TEST_P(CommunicatorTest, AllToAllTransposesPieces) {
  ExpectAllOk([](TestRank& rank) {
    return ForEachType([&](auto type) -> absl::Status {
      for (int64_t count : SuiteCounts<decltype(type)>()) {
        SCOPED_TRACE(::testing::Message() << count << " elements");
        ZEROTH_RETURN_IF_ERROR(CheckAllToAllOf<decltype(type)>(rank, count / 8));
      }
      return absl::OkStatus();
    });
  });
}

// Rank r sends r * p % 3 elements, p % 2 more from rank 0, to rank p: some pieces, and what some
// ranks send or receive altogether, are empty.
TEST_P(CommunicatorTest, AllToAllTransposesUnevenPieces) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    const auto count_of = [](int from, int to) {
      return int64_t{from * to % 3 + (from == 0 ? to % 2 : 0)};
    };
    const auto value_of = [](int from, int to, int64_t i) {
      return static_cast<float>(100 * from + 10 * to + i);
    };
    AllToAllCounts counts;
    std::vector<float> sent;
    std::vector<float> expected;
    for (int peer = 0; peer < rank.size(); ++peer) {
      counts.send.push_back(count_of(rank.rank(), peer));
      counts.recv.push_back(count_of(peer, rank.rank()));
      for (int64_t i = 0; i < counts.send.back(); ++i) {
        sent.push_back(value_of(rank.rank(), peer, i));
      }
      for (int64_t i = 0; i < counts.recv.back(); ++i) {
        expected.push_back(value_of(peer, rank.rank(), i));
      }
    }
    ZEROTH_ASSIGN_OR_RETURN(const Tensor send, ToDevice(rank.device, sent));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor recv,
                            ToDevice(rank.device, std::vector<float>(expected.size())));
    ZEROTH_RETURN_IF_ERROR(rank.world.AllToAll(send, recv, rank.stream, "exchange", counts));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> received, Fetch<float>(recv, rank.stream));
    ExpectSameBits(received, expected);
    const auto own = static_cast<size_t>(counts.send[static_cast<size_t>(rank.rank())]);
    EXPECT_EQ(rank.world.stats()[CollectiveOp::kAllToAll].bytes,
              static_cast<int64_t>((sent.size() - own) * sizeof(float)));
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, AllGatherPlacesEveryRanksElements) {
  ExpectAllOk([](TestRank& rank) {
    return ForEachType([&](auto type) -> absl::Status {
      for (int64_t count : SuiteCounts<decltype(type)>()) {
        for (bool in_place : {false, true}) {
          SCOPED_TRACE(::testing::Message() << count << " elements, in place " << in_place);
          ZEROTH_RETURN_IF_ERROR(
              CheckAllGatherOf<decltype(type)>(rank, count, in_place, rank.stream));
          ZEROTH_RETURN_IF_ERROR(CheckAllGatherOf<decltype(type)>(rank, count, in_place,
                                                                  rank.device.compute_stream()));
        }
      }
      return absl::OkStatus();
    });
  });
}

// Batched gathers: none, one, and several, of which some are empty or in place.
TEST_P(CommunicatorTest, AllGatherAllPlacesTheElementsOfEachGather) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    for (const std::vector<int64_t>& counts :
         std::vector<std::vector<int64_t>>{{}, {13}, {0, 257}, {7, 0, 1, 20011}}) {
      std::vector<Tensor> sends;
      std::vector<Tensor> fulls;
      std::vector<std::vector<float>> expected;
      std::vector<GatherBuffers> gathers;
      int64_t bytes = 0;
      for (size_t i = 0; i < counts.size(); ++i) {
        const auto pieces = TestValuesOfAll<float>(static_cast<int>(i), rank.size(), counts[i]);
        const auto& mine = pieces[static_cast<size_t>(rank.rank())];
        expected.push_back(Concatenate(pieces));
        const bool in_place = i % 2 == 1;
        std::vector<float> before(expected.back().size());
        if (in_place) {
          std::copy(mine.begin(), mine.end(), before.begin() + rank.rank() * counts[i]);
        }
        ZEROTH_ASSIGN_OR_RETURN(const Tensor full, ToDevice(rank.device, before));
        ZEROTH_ASSIGN_OR_RETURN(const Tensor apart, ToDevice(rank.device, mine));
        fulls.push_back(full);
        sends.push_back(in_place ? full.View(rank.rank() * counts[i], Shape({counts[i]})) : apart);
        gathers.push_back({sends.back(), full});
        bytes += counts[i] * 4 * (rank.size() - 1);
      }
      const CommStats::Counter before = rank.world.stats()[CollectiveOp::kAllGather];
      ZEROTH_RETURN_IF_ERROR(rank.world.AllGatherAll(gathers, rank.stream, "h.5"));
      const CommStats::Counter after = rank.world.stats()[CollectiveOp::kAllGather];
      EXPECT_EQ(after.calls - before.calls, static_cast<int64_t>(counts.size()));
      EXPECT_EQ(after.bytes - before.bytes, bytes);
      for (size_t i = 0; i < counts.size(); ++i) {
        ZEROTH_ASSIGN_OR_RETURN(const auto gathered, Fetch<float>(fulls[i], rank.stream));
        ExpectSameBits(gathered, expected[i]);
      }
    }
    return absl::OkStatus();
  });
}

// Batched reductions: in place, out of place, accumulated, and empty.
TEST_P(CommunicatorTest, ReduceScatterAllReducesEachBuffer) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    for (const std::vector<int64_t>& counts :
         std::vector<std::vector<int64_t>>{{}, {13}, {0, 257}, {7, 0, 1, 20011}}) {
      std::vector<Tensor> fulls;
      std::vector<Tensor> recvs;
      std::vector<std::vector<float>> expected;
      std::vector<ReductionBuffers> reductions;
      for (size_t i = 0; i < counts.size(); ++i) {
        const int64_t count = counts[i];
        const auto sends =
            TestValuesOfAll<float>(static_cast<int>(i), rank.size(), count * rank.size());
        expected.push_back(ExpectedReduction(ReduceOp::kMean, sends, rank.rank() * count, count));
        ZEROTH_ASSIGN_OR_RETURN(const Tensor full,
                                ToDevice(rank.device, sends[static_cast<size_t>(rank.rank())]));
        fulls.push_back(full);
        const bool in_place = i % 3 == 1;
        const bool adds = i % 3 == 0;
        ZEROTH_ASSIGN_OR_RETURN(
            const Tensor apart,
            ToDevice(rank.device, std::vector<float>(static_cast<size_t>(count), 0.5f)));
        for (float& value : expected.back()) value += adds ? 0.5f : 0;
        recvs.push_back(in_place ? full.View(rank.rank() * count, Shape({count})) : apart);
        reductions.push_back({full, recvs.back(), adds});
      }
      const CommStats::Counter before = rank.world.stats()[CollectiveOp::kReduceScatter];
      ZEROTH_RETURN_IF_ERROR(
          rank.world.ReduceScatterAll(reductions, ReduceOp::kMean, rank.stream, "h.5"));
      const CommStats::Counter after = rank.world.stats()[CollectiveOp::kReduceScatter];
      EXPECT_EQ(after.calls - before.calls, static_cast<int64_t>(counts.size()));
      for (size_t i = 0; i < counts.size(); ++i) {
        ZEROTH_ASSIGN_OR_RETURN(const auto reduced, Fetch<float>(recvs[i], rank.stream));
        ExpectSameBits(reduced, expected[i]);
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, ReduceScatterHasTheBitsOfTheTree) {
  ExpectAllOk([](TestRank& rank) {
    return ForEachType([&](auto type) -> absl::Status {
      for (int64_t count : SuiteCounts<decltype(type)>()) {
        for (ReduceOp op : ReduceOpsOf<decltype(type)>()) {
          for (bool in_place : {false, true}) {
            SCOPED_TRACE(::testing::Message() << count << " elements, in place " << in_place);
            ZEROTH_RETURN_IF_ERROR(
                CheckReduceScatterOf<decltype(type)>(rank, count / 8, op, in_place));
          }
        }
      }
      return absl::OkStatus();
    });
  });
}

TEST_P(CommunicatorTest, AllReduceHasTheBitsOfTheTreeOnEveryRank) {
  ExpectAllOk([](TestRank& rank) {
    return ForEachType([&](auto type) -> absl::Status {
      for (int64_t count : SuiteCounts<decltype(type)>()) {
        for (ReduceOp op : ReduceOpsOf<decltype(type)>()) {
          SCOPED_TRACE(::testing::Message() << count << " elements");
          ZEROTH_RETURN_IF_ERROR(CheckAllReduceOf<decltype(type)>(rank, count, op));
        }
      }
      return absl::OkStatus();
    });
  });
}

TEST_P(CommunicatorTest, SumsAreCloseToFloat64) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    const auto sends = TestValuesOfAll<float>(4, rank.size(), 501);
    ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                            ToDevice(rank.device, sends[static_cast<size_t>(rank.rank())]));
    ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kMean, rank.stream, "mean"));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> mean, Fetch<float>(buffer, rank.stream));
    for (size_t i = 0; i < mean.size(); ++i) {
      double sum = 0.0;
      double magnitude = 0.0;
      for (const auto& send : sends) {
        sum += static_cast<double>(send[i]);
        magnitude += std::abs(static_cast<double>(send[i]));
      }
      // One rounding for each level of the tree, one for 1/n and one for the product, each of at
      // most 2^-24.
      const double tolerance = magnitude * (std::log2(rank.size()) + 3) * std::exp2(-24.0);
      EXPECT_NEAR(mean[i], sum / rank.size(), tolerance / rank.size()) << "element " << i;
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, ReduceScatterDeliversUnroundedAndAccumulates) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    const int64_t count = 77;
    const auto sends = TestValuesOfAll<BFloat16>(5, rank.size(), count * rank.size());
    const std::vector<float> before = TestValues<float>(6, rank.rank(), count);
    ZEROTH_ASSIGN_OR_RETURN(const Tensor send,
                            ToDevice(rank.device, sends[static_cast<size_t>(rank.rank())]));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor plain, ToDevice(rank.device, before));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor added, ToDevice(rank.device, before));
    ZEROTH_RETURN_IF_ERROR(
        rank.world.ReduceScatter(send, plain, ReduceOp::kMean, rank.stream, "plain"));
    ZEROTH_RETURN_IF_ERROR(rank.world.ReduceScatter(send, added, ReduceOp::kMean, rank.stream,
                                                    "added", /*accumulate=*/true));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> reduced, Fetch<float>(plain, rank.stream));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> sum, added.ToHost<float>());
    std::vector<float> expected;
    std::vector<float> expected_sum;
    for (int64_t i = 0; i < count; ++i) {
      std::vector<float> column;
      for (const auto& values : sends) {
        column.push_back(ToFloat(values[static_cast<size_t>(rank.rank() * count + i)]));
      }
      expected.push_back(ReferenceReduceFloats(ReduceOp::kMean, column));
      expected_sum.push_back(before[static_cast<size_t>(i)] + expected.back());
    }
    ExpectSameBits(reduced, expected);
    ExpectSameBits(sum, expected_sum);
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, BroadcastComesFromEveryRoot) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    for (int root = 0; root < rank.size(); ++root) {
      for (int64_t count : SuiteCounts<int32_t>()) {
        ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                                ToDevice(rank.device, TestValues<int32_t>(7, rank.rank(), count)));
        ZEROTH_RETURN_IF_ERROR(rank.world.Broadcast(buffer, root, rank.stream, "broadcast"));
        ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> values,
                                Fetch<int32_t>(buffer, rank.stream));
        ExpectSameBits(values, TestValues<int32_t>(7, root, count));
      }
    }
    return absl::OkStatus();
  });
}

// Sums inside groups of every power of two that divides the world, then across: the bits of one
// flat sum. Mean: the product of two powers of two scales exactly.
TEST_P(CommunicatorTest, GroupsThenAcrossHasTheBitsOfTheFlatReduction) {
  if ((size() & (size() - 1)) != 0) GTEST_SKIP() << "only at powers of two";
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    const int64_t count = 1031;
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
      const auto sends = TestValuesOfAll<float>(8, rank.size(), count);
      const auto flat = ExpectedReduction(op, sends, 0, count);
      for (int group = 1; group <= rank.size(); group *= 2) {
        SCOPED_TRACE(::testing::Message() << "groups of " << group);
        ZEROTH_ASSIGN_OR_RETURN(const auto inside,
                                rank.world.Split(rank.rank() / group, rank.rank()));
        ZEROTH_ASSIGN_OR_RETURN(const auto across,
                                rank.world.Split(rank.rank() % group, rank.rank()));
        ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                                ToDevice(rank.device, sends[static_cast<size_t>(rank.rank())]));
        ZEROTH_RETURN_IF_ERROR(inside->AllReduce(buffer, op, rank.stream, "inside"));
        ZEROTH_RETURN_IF_ERROR(across->AllReduce(buffer, op, rank.stream, "across"));
        ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> result, Fetch<float>(buffer, rank.stream));
        ExpectSameBits(result, flat);
      }
    }
    return absl::OkStatus();
  });
}

// Buffers are used again by the next call at once, and ranks come late at random.
TEST_P(CommunicatorTest, RandomDelaysChangeNothing) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    const int64_t count = 203;
    const CounterRng delays(9, std::to_string(rank.rank()));
    const auto shards = TestValuesOfAll<float>(10, rank.size(), count);
    auto reference = Concatenate(shards);
    std::vector<float> initial(reference.size());
    ZEROTH_ASSIGN_OR_RETURN(const Tensor full, ToDevice(rank.device, initial));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor shard,
                            ToDevice(rank.device, shards[static_cast<size_t>(rank.rank())]));
    for (uint64_t step = 0; step < 12; ++step) {
      SleepFor(delays.Bits(2 * step) % 4 == 0 ? delays.Bits(step) % 2000 : 0);
      ZEROTH_RETURN_IF_ERROR(rank.world.AllGather(shard, full, rank.stream, "gather"));
      SleepFor(delays.Bits(2 * step + 1) % 4 == 0 ? delays.Bits(step + 99) % 2000 : 0);
      ZEROTH_RETURN_IF_ERROR(
          rank.world.ReduceScatter(full, shard, ReduceOp::kSum, rank.stream, "scatter"));
      ZEROTH_RETURN_IF_ERROR(rank.world.Broadcast(full, static_cast<int>(step) % rank.size(),
                                                  rank.stream, "broadcast"));
      ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(shard, ReduceOp::kMax, rank.stream, "max"));
      const std::vector<std::vector<float>> gathered(static_cast<size_t>(rank.size()), reference);
      auto reduced = ExpectedReduction(ReduceOp::kSum, gathered, 0, count * rank.size());
      std::vector<std::vector<float>> pieces;
      for (int r = 0; r < rank.size(); ++r) {
        pieces.emplace_back(reduced.begin() + r * count, reduced.begin() + (r + 1) * count);
      }
      const auto maximum = ExpectedReduction(ReduceOp::kMax, pieces, 0, count);
      reference =
          Concatenate(std::vector<std::vector<float>>(static_cast<size_t>(rank.size()), maximum));
    }
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> result, Fetch<float>(shard, rank.stream));
    ExpectSameBits(result, std::vector<float>(reference.begin(), reference.begin() + count));
    return absl::OkStatus();
  });
}

// A call only enqueues: the last rank enqueues its call after all ranks have heard from it
// otherwise.
TEST_P(CommunicatorTest, CallsDoNotWaitForOtherRanks) {
  if (GetParam().back_end == "local" && GetParam().device != "cpu") {
    GTEST_SKIP() << "where streams run behind the host, this back end's hosts meet for each call";
  }
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto other, rank.world.Duplicate());
    const auto values = TestValuesOfAll<float>(11, rank.size(), 40);
    ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                            ToDevice(rank.device, values[static_cast<size_t>(rank.rank())]));
    const bool last = rank.rank() == rank.size() - 1;
    if (!last) {
      ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kSum, rank.stream, "early"));
    }
    ZEROTH_RETURN_IF_ERROR(other->Barrier(rank.device.compute_stream(), "enqueued"));
    ZEROTH_RETURN_IF_ERROR(rank.device.compute_stream().Synchronize());
    if (last) {
      ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kSum, rank.stream, "early"));
    }
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> sum, Fetch<float>(buffer, rank.stream));
    ExpectSameBits(sum, ExpectedReduction(ReduceOp::kSum, values, 0, 40));
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, CountsAndRecordsCalls) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    const int64_t n = rank.size();
    const std::vector<float> zeros(static_cast<size_t>(10 * n));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor full, ToDevice(rank.device, zeros));
    const Tensor shard = full.View(10 * rank.rank(), Shape({10}));
    rank.world.stats().EnableRecord(true);
    {
      // A label is copied: this one is gone before the stream has run the call.
      const std::string label = absl::StrCat("unit ", 1, " with a name longer than small strings");
      ZEROTH_RETURN_IF_ERROR(rank.world.AllGather(shard, full, rank.stream, label));
    }
    ZEROTH_RETURN_IF_ERROR(
        rank.world.ReduceScatter(full, shard, ReduceOp::kSum, rank.stream, "rs"));
    ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(full, ReduceOp::kSum, rank.stream, "ar"));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor other, ToDevice(rank.device, zeros));
    ZEROTH_RETURN_IF_ERROR(rank.world.AllToAll(full, other, rank.stream, "aa"));
    ZEROTH_RETURN_IF_ERROR(rank.world.Broadcast(shard, 0, rank.stream, "bc"));
    ZEROTH_RETURN_IF_ERROR(rank.world.Barrier(rank.stream, "end"));
    const std::vector<CommStats::Entry> record = rank.world.stats().TakeRecord();
    ZEROTH_RETURN_IF_ERROR(rank.stream.Synchronize());

    const int64_t pieces = 40 * (n - 1);
    struct Expected {
      CollectiveOp op;
      std::string label;
      int64_t bytes;
    };
    const std::vector<Expected> expected = {
        {CollectiveOp::kAllGather, "unit 1 with a name longer than small strings", pieces},
        {CollectiveOp::kReduceScatter, "rs", pieces},
        {CollectiveOp::kAllReduce, "ar", 2 * pieces},
        {CollectiveOp::kAllToAll, "aa", pieces},
        {CollectiveOp::kBroadcast, "bc", n == 1 ? 0 : 40},
        {CollectiveOp::kBarrier, "end", 0}};
    EXPECT_EQ(record.size(), expected.size());
    for (size_t i = 0; i < std::min(record.size(), expected.size()); ++i) {
      EXPECT_EQ(record[i].op, expected[i].op);
      EXPECT_EQ(record[i].label, expected[i].label);
      EXPECT_EQ(record[i].bytes, expected[i].bytes);
      EXPECT_EQ(rank.world.stats()[expected[i].op].calls, 1);
      EXPECT_EQ(rank.world.stats()[expected[i].op].bytes, expected[i].bytes);
    }
    return absl::OkStatus();
  });
}

}  // namespace zeroth::testing
