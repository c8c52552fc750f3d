// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests of the NCCL back end alone: failures of the library, the network and processes, and both
// ways to reduce. On the emulated library.

#include "zeroth/core/comm/nccl/nccl.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/nccl/emulation/emulated_nccl.h"
#include "zeroth/core/comm/nccl/nccl_communicator.h"
#include "zeroth/core/comm/nccl/nccl_handle.h"
#include "zeroth/core/comm/nccl/nccl_world.h"
#include "zeroth/core/comm/nccl/testing/nccl_test_ranks.h"
#include "zeroth/core/comm/process/process_world.h"
#include "zeroth/core/comm/process/rendezvous_file.h"
#include "zeroth/core/comm/process/testing/foreign_clients.h"
#include "zeroth/core/comm/process/testing/test_environment.h"
#include "zeroth/core/comm/testing/communicator_test_fixture.h"
#include "zeroth/core/comm/testing/reduction_reference.h"
#include "zeroth/core/device/cuda/emulation/emulated_stream.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {
namespace {

using testing::ExpectSameBits;
using testing::ExpectWords;
using testing::Fetch;
using testing::NodesOf;
using testing::OnCuda;
using testing::ReferenceReduceAll;
using testing::RunNcclNodes;
using testing::RunNcclThreads;
using testing::SleepUntilBroken;
using testing::TestRank;
using testing::TestValuesOfAll;
using testing::ToDevice;
using testing::TwoAllReduces;

absl::Status RunRanks(int size, const std::function<absl::Status(TestRank&)>& function,
                      LaunchOptions options = {}) {
  options.world_size = size;
  return RunNcclThreads(options, OnCuda(function));
}

// Large enough for pieces, with remainders, empty pieces and the bits of the tree.
TEST(NcclTest, LargeAllReducesHaveTheBitsOfTheTree) {
  for (int size : {1, 2, 3, 4}) {
    for (int64_t count : {int64_t{65536 * 2}, int64_t{100003}}) {
      const absl::Status status = RunRanks(size, [&](TestRank& rank) -> absl::Status {
        const auto values = TestValuesOfAll<float>(5, rank.size(), count);
        const std::vector<float> expected = ReferenceReduceAll<float>(values, ReduceOp::kMean);
        ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                                ToDevice(rank.device, values[static_cast<size_t>(rank.rank())]));
        ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kMean, rank.stream, "large"));
        ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> result, Fetch<float>(buffer, rank.stream));
        ExpectSameBits(result, expected);
        return absl::OkStatus();
      });
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

// Runs on nodes of `sizes` consecutive ranks.
absl::Status RunOnNodes(const std::vector<int>& sizes,
                        const std::function<absl::Status(TestRank&)>& function) {
  const std::vector<std::string> nodes = NodesOf(sizes);
  LaunchOptions options;
  options.world_size = static_cast<int>(nodes.size());
  return RunNcclNodes(options, OnCuda(function), nodes);
}

// Neither the number of elements nor that of lines is a multiple of the ranks', and the last piece
// ends within a line. Pieces that do not begin at whole vectors need a scalar kernel.
TEST(NcclTest, PiecesOfAllReducesAreWholeLines) {
  constexpr int64_t kCount = 131101;
  for (const std::vector<int>& sizes : {std::vector<int>{3}, std::vector<int>{2, 2, 2}}) {
    const int size = std::accumulate(sizes.begin(), sizes.end(), 0);
    const auto values = TestValuesOfAll<BFloat16>(7, size, kCount);
    const std::vector<BFloat16> expected = ReferenceReduceAll<BFloat16>(values, ReduceOp::kMean);
    const int64_t before = nccl::emulation::UnalignedTransfers();
    const absl::Status status = RunOnNodes(sizes, [&](TestRank& rank) -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                              ToDevice(rank.device, values[static_cast<size_t>(rank.rank())]));
      ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kMean, rank.stream, "bf16"));
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<BFloat16> result,
                              Fetch<BFloat16>(buffer, rank.stream));
      ExpectSameBits(result, expected);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(nccl::emulation::UnalignedTransfers(), before);
  }
}

// Makes batched reduce-scatters of `counts` elements per rank, in place, and then all-reduces.
template <typename T>
void ExpectTheBitsOfTheTree(const std::vector<int>& sizes, const std::vector<int64_t>& counts,
                            ReduceOp op) {
  const int size = std::accumulate(sizes.begin(), sizes.end(), 0);
  SCOPED_TRACE(::testing::Message()
               << sizes.size() << " nodes, " << size << " ranks, " << ReduceOpName(op));
  std::vector<std::vector<std::vector<T>>> values;
  std::vector<std::vector<T>> expected;
  for (int64_t count : counts) {
    values.push_back(TestValuesOfAll<T>(values.size(), size, count * size));
    expected.push_back(ReferenceReduceAll<T>(values.back(), op));
  }
  const absl::Status status = RunOnNodes(sizes, [&](TestRank& rank) -> absl::Status {
    const auto r = static_cast<size_t>(rank.rank());
    std::vector<Tensor> sums;
    std::vector<ReductionBuffers> reductions;
    for (size_t i = 0; i < counts.size(); ++i) {
      ZEROTH_ASSIGN_OR_RETURN(const Tensor full, ToDevice(rank.device, values[i][r]));
      sums.push_back(full.View(counts[i] * rank.rank(), Shape({counts[i]})));
      reductions.push_back({full, sums.back()});
    }
    ZEROTH_RETURN_IF_ERROR(rank.world.ReduceScatterAll(reductions, op, rank.stream, "scatter"));
    for (size_t i = 0; i < counts.size(); ++i) {
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<T> sum, Fetch<T>(sums[i], rank.stream));
      const auto begin = expected[i].begin() + counts[i] * rank.rank();
      ExpectSameBits(sum, std::vector<T>(begin, begin + counts[i]));
      ZEROTH_ASSIGN_OR_RETURN(const Tensor all, ToDevice(rank.device, values[i][r]));
      ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(all, op, rank.stream, "all"));
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<T> result, Fetch<T>(all, rank.stream));
      ExpectSameBits(result, expected[i]);
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(NcclTest, ReductionsOnNodesHaveTheBitsOfTheTree) {
  // Nodes of a power of two of ranks, alone and several; other sizes, and nodes of one rank.
  const std::vector<std::vector<int>> clusters = {
      {1},    {4},       {2, 2},       {4, 4},       {2, 2, 2}, {1, 1, 1}, {3, 1},
      {3, 3}, {2, 2, 1}, {1, 2, 1, 2}, {4, 4, 4, 4}, {5, 4, 3}, {8, 8, 8}};
  for (const std::vector<int>& sizes : clusters) {
    const int64_t size = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    // Large enough that an all-reduce is divided into pieces.
    const int64_t large = 280001 / (size * size);
    // Includes odd and empty counts.
    ExpectTheBitsOfTheTree<float>(sizes, {7, 0, large / 4 + 1}, ReduceOp::kMean);
    ExpectTheBitsOfTheTree<BFloat16>(sizes, {1, large / 2 + 1}, ReduceOp::kSum);
    ExpectTheBitsOfTheTree<BFloat16>(sizes, {257, large / 2 + 2}, ReduceOp::kMax);
    ExpectTheBitsOfTheTree<int64_t>(sizes, {large / 8 + 1, 3}, ReduceOp::kSum);
    ExpectTheBitsOfTheTree<int32_t>(sizes, {99}, ReduceOp::kMax);
  }
}

// The second reduction is shorter than a block of the others, and the scratch holds three of four.
TEST(NcclTest, ReductionsOnNodesShareLittleScratch) {
  ExpectTheBitsOfTheTree<float>({2, 2}, {1000001, 37, 990003, 1000001}, ReduceOp::kSum);
}

TEST(NcclTest, ReductionsOnNodesWidenAndAccumulate) {
  constexpr int64_t kCount = 1003;
  const absl::Status status = RunOnNodes({2, 2}, [&](TestRank& rank) -> absl::Status {
    const auto r = static_cast<size_t>(rank.rank());
    const auto halves = TestValuesOfAll<BFloat16>(3, rank.size(), kCount * rank.size());
    std::vector<std::vector<float>> floats;
    for (const std::vector<BFloat16>& values : halves) {
      std::vector<float>& wide = floats.emplace_back();
      for (BFloat16 value : values) wide.push_back(ToFloat(value));
    }
    const std::vector<float> mean = ReferenceReduceAll<float>(floats, ReduceOp::kMean);
    ZEROTH_ASSIGN_OR_RETURN(const Tensor narrow, ToDevice(rank.device, halves[r]));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor wide, ToDevice(rank.device, floats[r]));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor written,
                            ToDevice(rank.device, std::vector<float>(kCount, 1.5f)));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor added,
                            ToDevice(rank.device, std::vector<float>(kCount, 1.5f)));
    ZEROTH_RETURN_IF_ERROR(
        rank.world.ReduceScatterAll({{narrow, written}, {wide, added, /*accumulate=*/true}},
                                    ReduceOp::kMean, rank.stream, "h.0"));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> first, Fetch<float>(written, rank.stream));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> second, Fetch<float>(added, rank.stream));
    std::vector<float> expected(mean.begin() + kCount * rank.rank(),
                                mean.begin() + kCount * (rank.rank() + 1));
    ExpectSameBits(first, expected);
    for (float& value : expected) value += 1.5f;
    ExpectSameBits(second, expected);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// The bytes that leave each node, and the number of ranks that rank 0 sends to.
struct Sent {
  std::vector<int64_t> across;
  int peers = 0;
};
Sent SentOnNodes(const std::vector<int>& sizes,
                 const std::function<absl::Status(TestRank&)>& function) {
  static_cast<void>(nccl::emulation::TakeBytesSent());
  const absl::Status status = RunOnNodes(sizes, function);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<size_t> node_of;
  for (size_t node = 0; node < sizes.size(); ++node) {
    node_of.insert(node_of.end(), static_cast<size_t>(sizes[node]), node);
  }
  Sent sent;
  sent.across.resize(sizes.size());
  for (const auto& [ranks, bytes] : nccl::emulation::TakeBytesSent()) {
    const size_t from = node_of[static_cast<size_t>(ranks.first)];
    if (from != node_of[static_cast<size_t>(ranks.second)]) sent.across[from] += bytes;
    if (ranks.first == 0) ++sent.peers;
  }
  return sent;
}

// A node of g ranks sends (N - 1)/N of a buffer, as in a ring over N nodes: sums in fp32, and
// results in their type. In one all-to-all it would send g times that.
TEST(NcclTest, ANodeSendsTheBytesOfARing) {
  const std::vector<int> sizes(8, 8);
  constexpr int64_t kElements = 64 * 32 * 5;  // five lines of bf16 for each rank
  const auto buffer = [](TestRank& rank) {
    return ToDevice(rank.device, std::vector<BFloat16>(kElements, ToBFloat16(1.0f)));
  };
  const Sent scatter = SentOnNodes(sizes, [&](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor full, buffer(rank));
    const Tensor own = full.View(kElements / 64 * rank.rank(), Shape({kElements / 64}));
    ZEROTH_RETURN_IF_ERROR(
        rank.world.ReduceScatter(full, own, ReduceOp::kSum, rank.stream, "scatter"));
    return rank.stream.Synchronize();
  });
  const Sent all = SentOnNodes(sizes, [&](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor full, buffer(rank));
    ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(full, ReduceOp::kSum, rank.stream, "all"));
    return rank.stream.Synchronize();
  });
  EXPECT_EQ(scatter.across, std::vector<int64_t>(8, 4 * kElements / 8 * 7));
  EXPECT_EQ(all.across, std::vector<int64_t>(8, (4 + 2) * kElements / 8 * 7));
  EXPECT_EQ(scatter.peers, 8 + 8 - 2);
  EXPECT_EQ(all.peers, 8 + 8 - 2);
}

// The library adds in its own order, and rounds to the dtype as it goes; the mean is exact.
TEST(NcclTest, TheLibraryMayReduce) {
  LaunchOptions options;
  options.reduction = "nccl";
  const absl::Status status = RunRanks(
      3,
      [](TestRank& rank) -> absl::Status {
        constexpr int64_t kCount = 1001;
        const auto values = TestValuesOfAll<float>(6, 3, 3 * kCount);
        const std::vector<float> expected = ReferenceReduceAll<float>(values, ReduceOp::kMean);
        ZEROTH_ASSIGN_OR_RETURN(const Tensor full,
                                ToDevice(rank.device, values[static_cast<size_t>(rank.rank())]));
        ZEROTH_ASSIGN_OR_RETURN(const Tensor shard,
                                ToDevice(rank.device, std::vector<float>(kCount, 1.0f)));
        ZEROTH_RETURN_IF_ERROR(rank.world.ReduceScatter(full, shard, ReduceOp::kMean, rank.stream,
                                                        "h.0", /*accumulate=*/true));
        ZEROTH_RETURN_IF_ERROR(
            rank.world.AllReduce(full, ReduceOp::kMean, rank.stream, "everything"));
        ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> piece, Fetch<float>(shard, rank.stream));
        ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> all, Fetch<float>(full, rank.stream));
        for (size_t i = 0; i < all.size(); ++i) {
          EXPECT_NEAR(all[i], expected[i], 1e-4f * (1.0f + std::abs(expected[i])));
        }
        for (size_t i = 0; i < piece.size(); ++i) {
          const float sum = 1.0f + expected[static_cast<size_t>(rank.rank()) * kCount + i];
          EXPECT_NEAR(piece[i], sum, 1e-4f * (1.0f + std::abs(sum)));
        }

        // bf16 on the wire, the mean unrounded: 1/3 of 3 x 1.5 is 1.5 exactly.
        ZEROTH_ASSIGN_OR_RETURN(const Tensor halves,
                                ToDevice(rank.device, std::vector<BFloat16>(6, ToBFloat16(1.5f))));
        ZEROTH_ASSIGN_OR_RETURN(const Tensor mean,
                                ToDevice(rank.device, std::vector<float>(2, 0.0f)));
        ZEROTH_RETURN_IF_ERROR(
            rank.world.ReduceScatter(halves, mean, ReduceOp::kMean, rank.stream, "bf16"));
        ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> means, Fetch<float>(mean, rank.stream));
        for (float value : means) EXPECT_FLOAT_EQ(value, 1.5f);
        return absl::OkStatus();
      },
      options);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(NcclTest, AStreamOfAnotherDeviceIsRefused) {
  const absl::Status status = RunRanks(2, [](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> cpu,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    return rank.world.Barrier(cpu->compute_stream(), "start");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  ExpectWords(status, {"belongs to cpu:0", "expected one of cuda:0"});
}

TEST(NcclTest, ALibraryThatCannotStartIsAnErrorOnAllRanks) {
  nccl::emulation::FailNextInit(ncclSystemError);
  const absl::Status status = RunRanks(3, TwoAllReduces);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  ExpectWords(status,
              {"failed: ncclCommInitRankConfig: NCCL: unhandled system error", "NCCL_DEBUG=INFO"});
}

TEST(NcclTest, AnErrorOfTheNetworkNamesTheRankThatSawIt) {
  const absl::Status status = RunRanks(3, [](TestRank& rank) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(TwoAllReduces(rank));
    if (rank.rank() == 1) nccl::emulation::FailNextTransfer(ncclRemoteError);
    ZEROTH_RETURN_IF_ERROR(rank.world.Barrier(rank.stream, "all"));
    ZEROTH_RETURN_IF_ERROR(TwoAllReduces(rank));
    SleepUntilBroken(rank.world);
    return rank.world.status();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  ExpectWords(status,
              {"rank ", " failed: ", "nccl world ranks [0-2]", "NCCL: remote process exited"});
}

// All ranks have called, but the bytes do not arrive.
TEST(NcclTest, ANetworkThatStallsIsATimeoutThatSaysSo) {
  LaunchOptions options;
  options.timeout = absl::Seconds(1);
  std::atomic<int> past_barrier{0};
  const absl::Status status = RunRanks(
      2,
      [&](TestRank& rank) -> absl::Status {
        ZEROTH_RETURN_IF_ERROR(TwoAllReduces(rank));
        ZEROTH_RETURN_IF_ERROR(rank.world.Barrier(rank.stream, "before"));
        ZEROTH_RETURN_IF_ERROR(rank.stream.Synchronize());
        // The barrier's own bytes must have reached both ranks.
        ++past_barrier;
        while (past_barrier < 2) testing::SleepFor(100);
        nccl::emulation::StallTransfers(true);
        return TwoAllReduces(rank);
      },
      options);
  nccl::emulation::StallTransfers(false);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  ExpectWords(status, {"timeout after 1s in all_reduce 'h.0' (call 4, 4 x fp32, sum)",
                       "all ranks have called it"});
}

// A gather of one rank's part of each, in memory that is registered with a group for gathers.
absl::Status GatherInRegisteredMemory(TestRank& rank) {
  ZEROTH_ASSIGN_OR_RETURN(const auto group, rank.world.SplitForGathers(0, rank.rank()));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor full, testing::TransportFloats(rank, 100 * rank.size()));
  ZEROTH_ASSIGN_OR_RETURN(const auto registration, group->Register(full, "full"));
  ZEROTH_RETURN_IF_ERROR(testing::CheckGatherInto(rank, *group, full, 1, /*in_place=*/true));
  return testing::CheckGatherInto(rank, *group, full, 2, /*in_place=*/false);
}

TEST(NcclTest, GathersGoByCopyEngineUnlessTheyAreNotTo) {
  for (const char* const mode : {"auto", "on", "off"}) {
    LaunchOptions options;
    options.nccl_copy_engine = mode;
    const int64_t before = nccl::emulation::CopyEngineGathers();
    const absl::Status status = RunRanks(3, GatherInRegisteredMemory, options);
    EXPECT_TRUE(status.ok()) << status;
    // Two gathers of three ranks.
    const int64_t expected = options.nccl_copy_engine == "off" ? 0 : 6;
    EXPECT_EQ(nccl::emulation::CopyEngineGathers() - before, expected) << mode;
  }
}

// Batched gathers are one NCCL group, unless copy engines run them.
TEST(NcclTest, GathersTogetherAreOneGroup) {
  const auto gather = [](TestRank& rank, Communicator& group) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor full, testing::TransportFloats(rank, 30 * rank.size()));
    std::vector<GatherBuffers> gathers;
    for (int i = 0; i < 3; ++i) {
      const Tensor part = full.View(10 * i * rank.size(), Shape({10 * rank.size()}));
      gathers.push_back({part.View(10 * rank.rank(), Shape({10})), part});
    }
    ZEROTH_RETURN_IF_ERROR(group.AllGatherAll(gathers, rank.stream, "h.0"));
    return rank.stream.Synchronize();
  };
  const int64_t before = nccl::emulation::Groups();
  const absl::Status status = RunRanks(2, [&](TestRank& rank) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(gather(rank, rank.world));
    ZEROTH_ASSIGN_OR_RETURN(const auto group, rank.world.SplitForGathers(0, rank.rank()));
    return gather(rank, *group);
  });
  EXPECT_TRUE(status.ok()) << status;
  // One group for each rank: the second communicator uses copy engines.
  EXPECT_EQ(nccl::emulation::Groups() - before, 2);
}

TEST(NcclTest, ReductionsTogetherAreOneGroup) {
  for (const char* const reduction : {"tree", "nccl"}) {
    LaunchOptions options;
    options.reduction = reduction;
    const int64_t before = nccl::emulation::Groups();
    const absl::Status status = RunRanks(
        2,
        [](TestRank& rank) -> absl::Status {
          // In place, added, from bf16 to fp32, and empty. All sums are exact.
          ZEROTH_ASSIGN_OR_RETURN(const Tensor full,
                                  ToDevice(rank.device, std::vector<float>(20, 3.0f)));
          ZEROTH_ASSIGN_OR_RETURN(const Tensor odd,
                                  ToDevice(rank.device, std::vector<float>(6, 2.0f)));
          ZEROTH_ASSIGN_OR_RETURN(const Tensor added,
                                  ToDevice(rank.device, std::vector<float>(3, 0.5f)));
          ZEROTH_ASSIGN_OR_RETURN(
              const Tensor narrow,
              ToDevice(rank.device, std::vector<BFloat16>(14, ToBFloat16(1.5f))));
          ZEROTH_ASSIGN_OR_RETURN(const Tensor wide,
                                  ToDevice(rank.device, std::vector<float>(7, 0.0f)));
          const Tensor in_place = full.View(10 * rank.rank(), Shape({10}));
          const std::vector<ReductionBuffers> reductions = {
              {odd, added, /*accumulate=*/true},
              {full, in_place},
              {full.View(0, Shape({0})), full.View(0, Shape({0}))},
              {narrow, wide}};
          ZEROTH_RETURN_IF_ERROR(
              rank.world.ReduceScatterAll(reductions, ReduceOp::kMean, rank.stream, "h.0"));
          ZEROTH_ASSIGN_OR_RETURN(const auto added_now, Fetch<float>(added, rank.stream));
          ZEROTH_ASSIGN_OR_RETURN(const auto in_place_now, Fetch<float>(in_place, rank.stream));
          ZEROTH_ASSIGN_OR_RETURN(const auto wide_now, Fetch<float>(wide, rank.stream));
          EXPECT_EQ(added_now, std::vector<float>(3, 2.5f));
          EXPECT_EQ(in_place_now, std::vector<float>(10, 3.0f));
          EXPECT_EQ(wide_now, std::vector<float>(7, 1.5f));
          return absl::OkStatus();
        },
        options);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(nccl::emulation::Groups() - before, 2) << reduction;  // one for each rank
  }
}

// Groups that reduce use kernels, and so do gathers of unregistered memory.
TEST(NcclTest, OtherGathersGoByKernels) {
  const int64_t before = nccl::emulation::CopyEngineGathers();
  const absl::Status status = RunRanks(2, [](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor full, testing::TransportFloats(rank, 100 * rank.size()));
    ZEROTH_ASSIGN_OR_RETURN(const auto registration, rank.world.Register(full, "full"));
    EXPECT_NE(registration, nullptr);
    ZEROTH_RETURN_IF_ERROR(testing::CheckGatherInto(rank, rank.world, full, 1, /*in_place=*/true));
    ZEROTH_ASSIGN_OR_RETURN(const auto group, rank.world.SplitForGathers(0, rank.rank()));
    return testing::CheckGatherInto(rank, *group, full, 2, /*in_place=*/true);
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(nccl::emulation::CopyEngineGathers(), before);
}

TEST(NcclTest, OneRankWhoseRegistrationFailsFailsAll) {
  const absl::Status status = RunRanks(3, [](TestRank& rank) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(TwoAllReduces(rank));
    if (rank.rank() == 1) nccl::emulation::FailNextRegistration(ncclSystemError);
    ZEROTH_RETURN_IF_ERROR(rank.world.Barrier(rank.stream, "all"));
    return GatherInRegisteredMemory(rank);
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  ExpectWords(status,
              {"failed: register_memory 'full' on nccl world ranks [0-2]",
               "ncclCommWindowRegister: NCCL: unhandled system error", "--nccl_copy_engine=off"});
}

TEST(NcclTest, MemoryFromElsewhereIsRefused) {
  const absl::Status status = RunRanks(2, [](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor other,
                            ToDevice(rank.device, std::vector<float>(1024, 1.0f)));
    return rank.world.Register(other, "other").status();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  ExpectWords(status, {"register_memory 'other'", "4096 bytes", "AllocateForTransport"});
}

// If one rank has no memory to register when the world is created, all do without, or all fail.
TEST(NcclTest, WithoutMemoryToRegisterAllGatherByKernels) {
  for (const char* const mode : {"auto", "on"}) {
    LaunchOptions options;
    options.nccl_copy_engine = mode;
    options.world_size = 3;
    const int64_t before = nccl::emulation::CopyEngineGathers();
    cuda::emulation::FailNextAllocations(1);
    std::atomic<int> notes{0};
    const absl::Status status = RunNcclThreads(
        options, OnCuda([&](TestRank& rank) -> absl::Status {
          EXPECT_EQ(rank.world.memory_source(), nullptr);
          ZEROTH_ASSIGN_OR_RETURN(const auto group, rank.world.SplitForGathers(0, rank.rank()));
          const std::string note = group->GatherNote();
          if (absl::StrContains(note, "has no memory to register")) ++notes;
          return GatherInRegisteredMemory(rank);
        }));
    EXPECT_EQ(nccl::emulation::CopyEngineGathers(), before);
    if (options.nccl_copy_engine == "auto") {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(notes, 3);
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      ExpectWords(status, {"nccl_copy_engine is on, but rank ", "has no memory to register"});
    }
  }
}

// The other ranks do not hang inside NCCL while one never calls.
TEST(NcclTest, ARankThatDoesNotRegisterIsATimeoutThatNamesIt) {
  LaunchOptions options;
  options.timeout = absl::Seconds(1);
  const absl::Status status = RunRanks(
      3,
      [](TestRank& rank) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const Tensor full, testing::TransportFloats(rank, 300));
        if (rank.rank() == 2) {
          SleepUntilBroken(rank.world);
          return rank.world.status();
        }
        return rank.world.Register(full, "full").status();
      },
      options);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  ExpectWords(status, {"missing rank 2", "register_memory 'full' (call 1, 1200 x uint8)"});
}

// Records calls of two communicators on two streams, as in a training step: each play replaces
// `values` by their sum over ranks, and gathers the sums into `full`.
class RecordedRank {
 public:
  static absl::StatusOr<std::unique_ptr<RecordedRank>> Create(TestRank& rank) {
    auto made = std::make_unique<RecordedRank>();
    made->compute_ = &rank.device.compute_stream();
    made->side_ = &rank.stream;
    ZEROTH_ASSIGN_OR_RETURN(made->gathers_, rank.world.SplitForGathers(0, rank.rank()));
    ZEROTH_ASSIGN_OR_RETURN(made->sums_, rank.world.Duplicate());
    ZEROTH_ASSIGN_OR_RETURN(made->full_, testing::TransportFloats(rank, kCount * rank.size()));
    ZEROTH_ASSIGN_OR_RETURN(made->registration_, made->gathers_->Register(made->full_, "full"));
    ZEROTH_ASSIGN_OR_RETURN(
        made->values_,
        ToDevice(rank.device, std::vector<float>(kCount, static_cast<float>(rank.rank() + 1))));
    // Runs first, so that the recording has no one-time work.
    ZEROTH_RETURN_IF_ERROR(made->Enqueue());
    ZEROTH_RETURN_IF_ERROR(rank.device.BeginRecording());
    const absl::Status enqueued = made->Enqueue();
    absl::StatusOr<std::unique_ptr<Recording>> recording = rank.device.EndRecording();
    ZEROTH_RETURN_IF_ERROR(enqueued);
    ZEROTH_RETURN_IF_ERROR(recording.status());
    made->recording_ = *std::move(recording);
    return made;
  }

  // Enqueues the work of Play without a recording.
  absl::Status Enqueue() {
    ZEROTH_RETURN_IF_ERROR(sums_->AllReduce(values_, ReduceOp::kSum, *compute_, "sum"));
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> summed, compute_->Record());
    ZEROTH_RETURN_IF_ERROR(side_->Wait(summed));
    ZEROTH_RETURN_IF_ERROR(gathers_->AllGather(values_, full_, *side_, "gather"));
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> gathered, side_->Record());
    return compute_->Wait(gathered);
  }
  absl::Status Play() { return recording_->Play(*compute_); }
  // Drops a communicator that the recording uses.
  void DropSums() { sums_.reset(); }
  absl::StatusOr<std::vector<float>> Full() { return Fetch<float>(full_, *compute_); }
  const CommStats& gather_stats() const { return gathers_->stats(); }

  static constexpr int64_t kCount = 5;

 private:
  Stream* compute_ = nullptr;
  Stream* side_ = nullptr;
  std::unique_ptr<Communicator> gathers_;
  std::unique_ptr<Communicator> sums_;
  Tensor full_;
  std::unique_ptr<MemoryRegistration> registration_;
  Tensor values_;
  std::unique_ptr<Recording> recording_;  // last: destroyed before what it uses
};

TEST(NcclTest, RecordedCallsArePlayedAmongOthers) {
  const int64_t before = nccl::emulation::CopyEngineGathers();
  const absl::Status status = RunRanks(3, [](TestRank& rank) -> absl::Status {
    EXPECT_TRUE(rank.world.SupportsRecording());
    ZEROTH_ASSIGN_OR_RETURN(const auto recorded, RecordedRank::Create(rank));
    // The first sum is 1 + 2 + 3; each later one is three times the sum before.
    float expected = 6;
    const bool plays[] = {true, true, false, true, false, false, true, true};
    for (const bool play : plays) {
      ZEROTH_RETURN_IF_ERROR(play ? recorded->Play() : recorded->Enqueue());
      expected *= 3;
    }
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> full, recorded->Full());
    EXPECT_EQ(full, std::vector<float>(3 * RecordedRank::kCount, expected));
    // One call before the recording, and one for each play or direct run.
    EXPECT_EQ(recorded->gather_stats()[CollectiveOp::kAllGather].calls, 9);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(nccl::emulation::CopyEngineGathers() - before, 3 * 9);
}

TEST(NcclTest, ARankThatDoesNotPlayIsATimeoutThatNamesIt) {
  LaunchOptions options;
  options.timeout = absl::Seconds(1);
  const absl::Status status = RunRanks(
      3,
      [](TestRank& rank) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const auto recorded, RecordedRank::Create(rank));
        ZEROTH_RETURN_IF_ERROR(recorded->Play());
        if (rank.rank() == 1) {
          SleepUntilBroken(rank.world);
          return rank.world.status();
        }
        ZEROTH_RETURN_IF_ERROR(recorded->Play());
        return recorded->Full().status();
      },
      options);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  ExpectWords(status, {"missing rank 1", "waiting in play '", " and 0 more' (call "});
}

TEST(NcclTest, ACallInPlaceOfAPlayIsAMismatch) {
  const absl::Status status = RunRanks(2, [](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto recorded, RecordedRank::Create(rank));
    ZEROTH_RETURN_IF_ERROR(rank.rank() == 0 ? recorded->Play() : recorded->Enqueue());
    return recorded->Full().status();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  ExpectWords(status, {"rank 0 called play '", "rank 1 called all_"});
}

TEST(NcclTest, APlayThatStallsIsATimeoutThatSaysSo) {
  LaunchOptions options;
  options.timeout = absl::Seconds(1);
  std::atomic<int> played{0};
  const absl::Status status = RunRanks(
      2,
      [&](TestRank& rank) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const auto recorded, RecordedRank::Create(rank));
        ZEROTH_RETURN_IF_ERROR(recorded->Play());
        ZEROTH_RETURN_IF_ERROR(recorded->Full().status());
        ++played;
        while (played < 2) testing::SleepFor(100);
        nccl::emulation::StallTransfers(true);
        ZEROTH_RETURN_IF_ERROR(recorded->Play());
        return recorded->Full().status();
      },
      options);
  nccl::emulation::StallTransfers(false);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  ExpectWords(status, {"timeout after 1s in play '", "all ranks have called it"});
}

// If the watcher freed the communicator, NCCL would make it wait for the graph, and it could not
// watch the other communicators.
TEST(NcclTest, ARecordingMayOutliveItsCommunicators) {
  LaunchOptions options;
  options.timeout = absl::Seconds(1);
  std::atomic<int> ready{0};
  const absl::Status status = RunRanks(
      2,
      [&](TestRank& rank) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const auto recorded, RecordedRank::Create(rank));
        ZEROTH_RETURN_IF_ERROR(recorded->Play());
        ZEROTH_RETURN_IF_ERROR(recorded->Full().status());
        recorded->DropSums();
        // The thread that frees unused communicators has run meanwhile.
        testing::SleepFor(100000);
        ZEROTH_RETURN_IF_ERROR(TwoAllReduces(rank));
        ++ready;
        while (ready < 2) testing::SleepFor(100);
        nccl::emulation::StallTransfers(true);
        return TwoAllReduces(rank);
      },
      options);
  nccl::emulation::StallTransfers(false);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  ExpectWords(status, {"timeout after 1s in all_reduce 'h.0'", "all ranks have called it"});
}

// Freeing a communicator may wait for the calls of others, which are still watched.
TEST(NcclTest, ACommunicatorThatIsFreedHoldsNothingUp) {
  LaunchOptions options;
  options.timeout = absl::Seconds(1);
  std::atomic<int> ready{0};
  const absl::Status status = RunRanks(
      2,
      [&](TestRank& rank) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> other, rank.world.Duplicate());
        ZEROTH_RETURN_IF_ERROR(TwoAllReduces(rank));
        ++ready;
        while (ready < 2) testing::SleepFor(100);
        nccl::emulation::StallTransfers(true);
        ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                                ToDevice(rank.device, std::vector<float>(4, 1.0f)));
        ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kSum, rank.stream, "stalls"));
        other.reset();
        return rank.stream.Synchronize();
      },
      options);
  nccl::emulation::StallTransfers(false);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  ExpectWords(status, {"timeout after 1s in all_reduce 'stalls'", "all ranks have called it"});
}

// ForeignClients connect while the ranks meet, and while they work.
TEST(NcclTest, StrangersHarmNobody) {
  constexpr int kSize = 3;
  const std::string file = testing::TestRendezvousFile();
  testing::ForeignClients clients(
      [&]() -> std::optional<MeetingPlace> {
        const auto place = ReadRendezvousFile(file);
        return place.ok() ? *place : std::nullopt;
      },
      testing::AffordableConnections(2000));
  LaunchOptions options;
  options.world_size = kSize;
  const RankMain rank_main = OnCuda([&](TestRank& rank) -> absl::Status {
    const auto values = TestValuesOfAll<float>(5, kSize, 1003);
    const std::vector<float> expected = ReferenceReduceAll<float>(values, ReduceOp::kMean);
    for (int i = 0; i < 5; ++i) {
      ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                              ToDevice(rank.device, values[static_cast<size_t>(rank.rank())]));
      ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kMean, rank.stream, "mean"));
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> mean, Fetch<float>(buffer, rank.stream));
      ExpectSameBits(mean, expected);
      clients.AwaitRounds(1);
    }
    return absl::OkStatus();
  });
  std::vector<absl::Status> statuses(kSize);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      statuses[static_cast<size_t>(rank)] =
          RunNcclRank(testing::TestEnvironment(rank, kSize, file), options, rank_main);
    });
    if (rank + 1 < kSize) clients.AwaitRounds(2);
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(clients.connected(), 0);
  EXPECT_GT(clients.refused(), 0);
}

TEST(NcclTest, ANumberOfRanksThatWasNotStartedIsRefused) {
  LaunchOptions options;
  options.world_size = 4;
  ProcessEnvironment environment;
  environment.launcher = "none";
  const RankMain never = [](Communicator&) { return absl::InternalError("must not run"); };
  absl::Status status = RunNcclRank(environment, options, never);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  ExpectWords(status, {"world_size is 4", "no launcher has started", "torchrun"});
  environment.launcher = "torchrun";
  environment.world_size = 2;
  status = RunNcclRank(environment, options, never);
  ExpectWords(status, {"world_size is 4", "torchrun has started 2"});
}

TEST(NcclTest, RootsAreTheFirstRanksOfEqualParts) {
  EXPECT_EQ(nccl::RootsOf(1, 128), std::vector<int>({0}));
  EXPECT_EQ(nccl::RootsOf(128, 128), std::vector<int>({0}));
  EXPECT_EQ(nccl::RootsOf(129, 128), std::vector<int>({0, 65}));
  EXPECT_EQ(nccl::RootsOf(1024, 128), std::vector<int>({0, 128, 256, 384, 512, 640, 768, 896}));
  EXPECT_EQ(nccl::RootsOf(5, 2), std::vector<int>({0, 2, 4}));
  EXPECT_EQ(nccl::RootsOf(3, 1), std::vector<int>({0, 1, 2}));
}

// Starts a world as RunNcclRank, but with a root for every two ranks.
TEST(NcclTest, AWorldStartsWithSeveralRoots) {
  constexpr int kRanks = 5;
  const int64_t before = nccl::emulation::StartsWithSeveralRoots();
  const std::string file = testing::TestRendezvousFile();
  LaunchOptions options;
  options.world_size = kRanks;
  const auto run = [&](int rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(
        const std::shared_ptr<ProcessWorld> processes,
        ProcessWorld::Join(testing::TestEnvironment(rank, kRanks, file), options, "nccl"));
    ZEROTH_RETURN_IF_ERROR(processes->AnnounceNode());
    const auto world = std::make_shared<nccl::World>(processes, 0, /*library_reduces=*/false);
    ZEROTH_RETURN_IF_ERROR(world->Start());
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<nccl::NcclCommunicator> communicator,
                            nccl::NcclCommunicator::CreateWorld(world, /*ranks_per_root=*/2));
    const absl::Status used = OnCuda(TwoAllReduces)(*communicator);
    return processes->Return(used);
  };
  std::vector<absl::Status> statuses(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] { statuses[static_cast<size_t>(rank)] = run(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(nccl::emulation::StartsWithSeveralRoots() - before, kRanks);
}

// Like the launcher "nccl": without a launcher's variables, the world has one rank.
TEST(NcclTest, WithoutALauncherThereIsOneRank) {
  for (const char* name :
       {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "SLURM_PROCID"}) {
    unsetenv(name);
  }
  const absl::StatusOr<std::optional<StartedRanks>> started = LauncherRegistry::Started("nccl");
  ASSERT_TRUE(started.ok()) << started.status();
  ASSERT_TRUE(started->has_value());
  EXPECT_EQ((*started)->world_size, 1);
  const absl::Status status =
      LauncherRegistry::Launch("nccl", LaunchOptions(), OnCuda([](TestRank& rank) {
                                 EXPECT_EQ(rank.world.size(), 1);
                                 return TwoAllReduces(rank);
                               }));
  EXPECT_TRUE(status.ok()) << status;
  setenv("RANK", "one", 1);
  EXPECT_EQ(LauncherRegistry::Started("nccl").status().code(), absl::StatusCode::kInvalidArgument);
  unsetenv("RANK");
}

}  // namespace
}  // namespace zeroth
