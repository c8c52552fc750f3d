// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// As mpi_ranks.cc, on emulated nodes.

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/mpi/mpi_engine.h"
#include "zeroth/core/comm/mpi/testing/run_on_cpu.h"
#include "zeroth/core/comm/testing/communicator_test_fixture.h"
#include "zeroth/core/comm/testing/reduction_reference.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth::testing {
namespace {

// The bytes that this rank has sent to ranks of other nodes.
int64_t BytesAcross(int size, int per_node, int rank) {
  const absl::StatusOr<mpi::Engine*> engine = mpi::Engine::Get();
  if (!engine.ok()) return -1;
  int64_t bytes = 0;
  for (int peer = 0; peer < size; ++peer) {
    if (peer / per_node != rank / per_node) bytes += (*engine)->BytesSentForTest(peer);
  }
  return bytes;
}

// Runs `calls`, and expects this rank to send `expected` bytes to other nodes meanwhile.
absl::Status ExpectBytesAcross(TestRank& rank, int per_node, int64_t expected,
                               const std::function<absl::Status()>& calls) {
  const int64_t before = BytesAcross(rank.size(), per_node, rank.rank());
  ZEROTH_RETURN_IF_ERROR(calls());
  ZEROTH_RETURN_IF_ERROR(rank.stream.Synchronize());
  EXPECT_EQ(BytesAcross(rank.size(), per_node, rank.rank()) - before, expected);
  return absl::OkStatus();
}

// Reduces on a part of the world, and expects this rank to send `expected` pieces to other nodes.
absl::Status ExpectPartAcross(TestRank& rank, int per_node, bool member, int64_t expected) {
  ZEROTH_ASSIGN_OR_RETURN(const auto part, rank.world.Split(member ? 0 : -1, rank.rank()));
  if (part == nullptr) return absl::OkStatus();
  const int64_t count = 10007;
  const auto values = TestValuesOfAll<float>(9, part->size(), count * part->size());
  ZEROTH_ASSIGN_OR_RETURN(const Tensor full,
                          ToDevice(rank.device, values[static_cast<size_t>(part->rank())]));
  const Tensor own = full.View(part->rank() * count, Shape({count}));
  ZEROTH_RETURN_IF_ERROR(
      ExpectBytesAcross(rank, per_node, expected * count * 4, [&]() -> absl::Status {
        return part->ReduceScatter(full, own, ReduceOp::kSum, rank.stream, "part");
      }));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> sum, Fetch<float>(own, rank.stream));
  const std::vector<float> all = ReferenceReduceAll<float>(values, ReduceOp::kSum);
  const auto begin = all.begin() + part->rank() * count;
  ExpectSameBits(sum, std::vector<float>(begin, begin + count));
  return absl::OkStatus();
}

// mpi_test.cc emulates N = 2 nodes of four ranks. A node sends (N - 1)/N of a buffer, as in a ring
// over nodes, and each of its ranks a quarter of that.
TEST(MpiRanks, ANodeSendsTheBytesOfARing) {
  const int per_node = 4;
  const absl::Status status = RunOnCpu([&](TestRank& rank) -> absl::Status {
    ZEROTH_CHECK(rank.size() == 8);
    const int64_t count = int64_t{1} << 20;
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const auto bytes = static_cast<int64_t>(SizeOf(dtype)) * count;
      ZEROTH_ASSIGN_OR_RETURN(const Tensor full, Tensor::Empty(rank.device, Shape({count}), dtype,
                                                               MemoryCategory::kWorkspace));
      Stream& compute = rank.device.compute_stream();
      ZEROTH_RETURN_IF_ERROR(rank.device.FillZero(full.raw_data(), full.bytes(), compute));
      ZEROTH_RETURN_IF_ERROR(compute.Synchronize());
      const Tensor own = full.View(rank.rank() * count / 8, Shape({count / 8}));
      const int64_t sums = count * 4 / 2 / per_node;  // in fp32
      const int64_t results = bytes / 2 / per_node;
      ZEROTH_RETURN_IF_ERROR(ExpectBytesAcross(rank, per_node, sums, [&] {
        return rank.world.ReduceScatter(full, own, ReduceOp::kSum, rank.stream, "scatter");
      }));
      ZEROTH_RETURN_IF_ERROR(ExpectBytesAcross(rank, per_node, results, [&] {
        return rank.world.AllGather(own, full, rank.stream, "gather");
      }));
      ZEROTH_RETURN_IF_ERROR(ExpectBytesAcross(rank, per_node, sums + results, [&] {
        return rank.world.AllReduce(full, ReduceOp::kMean, rank.stream, "all-reduce");
      }));
    }
    // Two ranks of each node: each sends one piece of sums to the other node.
    ZEROTH_RETURN_IF_ERROR(ExpectPartAcross(rank, per_node, rank.rank() % 4 < 2, 1));
    // Three ranks of one node and one of the other form no equal nodes: each sends a piece to each
    // rank of the other node.
    const bool first = rank.rank() < 4;
    ZEROTH_RETURN_IF_ERROR(
        ExpectPartAcross(rank, per_node, rank.rank() < 3 || rank.rank() == 4, first ? 1 : 3));
    // All ranks of one node send nothing to the other.
    return ExpectPartAcross(rank, per_node, first, 0);
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace zeroth::testing
