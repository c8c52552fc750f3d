// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/planned/planned_communicator.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/planned/planned_device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {
namespace {

Machine TwoSpeeds() {
  Machine machine;
  machine.name = "test";
  machine.devices_per_node = 8;
  machine.memory_bandwidth = 1e12;
  machine.link_bandwidth = 100e9;
  machine.network_bandwidth = 10e9;
  machine.link_latency = 1e-6;
  machine.network_latency = 10e-6;
  return machine;
}

std::unique_ptr<PlannedCommunicator> World(int size, int rank = 0) {
  return *PlannedCommunicator::CreateWorld(TwoSpeeds(), size, rank, {});
}

Tensor Floats(PlannedDevice& device, int64_t count) {
  return *Tensor::Empty(device, Shape({count}), DType::kFloat32, MemoryCategory::kParameters);
}

Collective Call(CollectiveOp op, int64_t sent, int64_t received) {
  Collective call;
  call.op = op;
  call.send = BufferView(nullptr, sent, DType::kFloat32);
  call.recv = BufferView(nullptr, received, DType::kFloat32);
  return call;
}

TEST(PlannedCommunicatorTest, InsideANodeTheLinkCounts) {
  const auto world = World(8);
  const PlannedCommunicator::Time time =
      world->TimeOf(Call(CollectiveOp::kAllGather, 1'000'000, 8'000'000));
  EXPECT_DOUBLE_EQ(time.seconds, 7 * 4e6 / 100e9);
  EXPECT_DOUBLE_EQ(time.latency, 7e-6);
  EXPECT_FALSE(time.crosses_nodes);
}

TEST(PlannedCommunicatorTest, RatesInsideANodeAreThoseOfTheSize) {
  Machine machine = TwoSpeeds();
  machine.is_gpu = false;
  machine.link_rates = {{4e6, 10e9, 20e9, 30e9}, {64e6, 50e9, 60e9, 70e9}};
  const auto node = *PlannedCommunicator::CreateWorld(machine, 8, 0, {});
  const auto seconds = [&](CollectiveOp op, int64_t sent, int64_t received) {
    return node->TimeOf(Call(op, sent, received)).seconds;
  };
  // In the middle between the sizes, below both and above both.
  EXPECT_DOUBLE_EQ(seconds(CollectiveOp::kReduceScatter, 4'000'000, 500'000), 7 * 2e6 / 40e9);
  EXPECT_DOUBLE_EQ(seconds(CollectiveOp::kAllReduce, 400'000, 400'000), 2 * 7 * 2e5 / 30e9);
  EXPECT_DOUBLE_EQ(seconds(CollectiveOp::kAllReduce, 80'000'000, 80'000'000), 14 * 4e7 / 70e9);
  // Both buffers of Call have null addresses, so rank 0 gathers in place.
  Collective gather = Call(CollectiveOp::kAllGather, 2'000'000, 16'000'000);
  EXPECT_DOUBLE_EQ(node->TimeOf(gather).seconds, 7 * 8e6 / 50e9);
  float elsewhere = 0;
  gather.send.data = &elsewhere;
  EXPECT_DOUBLE_EQ(node->TimeOf(gather).seconds, 8 * 8e6 / 50e9);
  const auto nodes = *PlannedCommunicator::CreateWorld(machine, 16, 0, {});
  const Collective call = Call(CollectiveOp::kAllReduce, 8'000'000, 8'000'000);
  EXPECT_DOUBLE_EQ(nodes->TimeOf(call).seconds, World(16)->TimeOf(call).seconds);
}

TEST(PlannedCommunicatorTest, ARingOverNodesHasTheNetworkCardsOfAllItsDevices) {
  const auto world = World(32);
  const PlannedCommunicator::Time time =
      world->TimeOf(Call(CollectiveOp::kReduceScatter, 32'000'000, 1'000'000));
  // 31 pieces leave each node, through its eight NICs.
  EXPECT_DOUBLE_EQ(time.seconds, 31 * 4e6 / (8 * 10e9));
  EXPECT_DOUBLE_EQ(time.latency, 28e-6 + 3 * 10e-6);
  EXPECT_TRUE(time.crosses_nodes);
}

TEST(PlannedCommunicatorTest, RanksOfOnePlaceInEachNodeHaveACardEach) {
  const auto world = World(32, /*rank=*/9);
  const auto across = world->SplitInto({1, 9, 17, 25}, 0, false);
  ASSERT_TRUE(across.ok()) << across.status();
  EXPECT_EQ((*across)->rank(), 1);
  EXPECT_EQ((*across)->size(), 4);
  const auto& group = static_cast<const PlannedCommunicator&>(**across);
  const PlannedCommunicator::Time time =
      group.TimeOf(Call(CollectiveOp::kAllReduce, 4'000'000, 4'000'000));
  EXPECT_DOUBLE_EQ(time.seconds, 2 * 3 * 4e6 / 10e9);
  // Two levels of a tree, up and down, are shorter than two rounds of a ring.
  EXPECT_DOUBLE_EQ(time.latency, 2 * 2 * 10e-6);
}

TEST(PlannedCommunicatorTest, InAnAllToAllNobodyHandsOn) {
  const auto world = World(16);
  const PlannedCommunicator::Time time =
      world->TimeOf(Call(CollectiveOp::kAllToAll, 16'000'000, 16'000'000));
  EXPECT_DOUBLE_EQ(time.seconds, 8 * 4e6 / 10e9);
}

// The tree over ranks as it is run: inside each node first, so that a node of 8 x 8 ranks sends to
// others what a ring of fp32 sends.
TEST(PlannedCommunicatorTest, AReductionOverWholeNodesHasTwoLevels) {
  const Collective scatter = Call(CollectiveOp::kReduceScatter, 64'000'000, 1'000'000);
  const auto ring = World(64);
  PlannedCommunicator::Options options;
  options.reduces_by_exchange = true;
  const auto tree = *PlannedCommunicator::CreateWorld(TwoSpeeds(), 64, 0, options);
  // This rank sends one sum for each of the 7 other nodes, through its own NIC.
  EXPECT_DOUBLE_EQ(tree->TimeOf(scatter).bytes_across, 7 * 4e6);
  EXPECT_DOUBLE_EQ(tree->TimeOf(scatter).seconds, 7 * 4e6 / TwoSpeeds().network_bandwidth);
  // The ring's 63 pieces leave a node through its 8 NICs.
  EXPECT_DOUBLE_EQ(ring->TimeOf(scatter).bytes_across, 63 * 4e6 / 8);
  // Sums are fp32 where pieces are bf16.
  Collective bf16 = scatter;
  bf16.send.dtype = bf16.recv.dtype = DType::kBFloat16;
  EXPECT_DOUBLE_EQ(tree->TimeOf(bf16).bytes_across, 7 * 4e6);
  // In an all-reduce, the second half is a ring.
  const Collective reduce = Call(CollectiveOp::kAllReduce, 64'000'000, 64'000'000);
  EXPECT_DOUBLE_EQ(tree->TimeOf(reduce).bytes_across, (7 + 63.0 / 8) * 4e6);
  // A slow link shows the traffic inside the node: 7 pieces for each of the 8 nodes.
  Machine slow = TwoSpeeds();
  slow.link_bandwidth = 1e9;
  const auto inside = *PlannedCommunicator::CreateWorld(slow, 64, 0, options);
  EXPECT_DOUBLE_EQ(inside->TimeOf(scatter).seconds, 7 * 8 * 4e6 / 1e9);
  EXPECT_FALSE(inside->TimeOf(scatter).crosses_nodes);
  // Inside a node, and among one rank of each node, both send the same.
  const auto node = *PlannedCommunicator::CreateWorld(TwoSpeeds(), 8, 0, options);
  EXPECT_DOUBLE_EQ(node->TimeOf(scatter).seconds, World(8)->TimeOf(scatter).seconds);
}

// A group whose nodes have different numbers of ranks exchanges all pieces at once.
TEST(PlannedCommunicatorTest, AReductionOverUnevenNodesCrossesTheNetworkWithEachPiece) {
  PlannedCommunicator::Options options;
  options.reduces_by_exchange = true;
  const auto tree = *PlannedCommunicator::CreateWorld(TwoSpeeds(), 60, 0, options);
  const Collective scatter = Call(CollectiveOp::kReduceScatter, 60'000'000, 1'000'000);
  const Collective exchange = Call(CollectiveOp::kAllToAll, 60'000'000, 60'000'000);
  EXPECT_DOUBLE_EQ(tree->TimeOf(scatter).seconds, World(60)->TimeOf(exchange).seconds);
  // 52 of 59 pieces, through this rank's own NIC.
  EXPECT_DOUBLE_EQ(tree->TimeOf(scatter).bytes_across, 52 * 4e6);
}

TEST(PlannedCommunicatorTest, CountsAsEveryOtherAndNotesTheTime) {
  const auto world = World(16384);
  PlannedDevice device(TwoSpeeds(), {});
  const Tensor shard = Floats(device, 1000);
  const Tensor full = Floats(device, 16384 * 1000);
  ASSERT_TRUE(world->AllGather(shard, full, device.compute_stream(), "h.0").ok());
  EXPECT_EQ(world->stats()[CollectiveOp::kAllGather].bytes, 16383 * 4000);
  ASSERT_EQ(device.ledger().entries().size(), 1u);
  const PlannedWork& work = device.ledger().entries()[0].work;
  EXPECT_STREQ(work.collective, "all_gather");
  EXPECT_EQ(work.bytes, 16383 * 4000);
  EXPECT_EQ(work.resource, Resource::kNetwork);
  // Like other communicators, it refuses mismatched arguments, and is broken then.
  EXPECT_EQ(world->AllGather(full, shard, device.compute_stream(), "h.0").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(world->status().ok());
}

TEST(PlannedCommunicatorTest, CallsTogetherTakeOneLatency) {
  for (const bool together : {true, false}) {
    PlannedCommunicator::Options options;
    options.calls_together = together;
    const auto world = *PlannedCommunicator::CreateWorld(TwoSpeeds(), 64, 0, options);
    PlannedDevice device(TwoSpeeds(), {});
    const GatherBuffers one = {Floats(device, 1000), Floats(device, 64 * 1000)};
    ASSERT_TRUE(world->AllGatherAll({one, one}, device.compute_stream(), "h.0").ok());
    ASSERT_TRUE(world->AllGatherAll({one}, device.compute_stream(), "h.1").ok());
    const auto& entries = device.ledger().entries();
    ASSERT_EQ(entries.size(), 3u);
    const double latency = entries[0].work.latency;
    EXPECT_GT(latency, 0);
    EXPECT_EQ(entries[1].work.latency, together ? 0 : latency);
    EXPECT_EQ(entries[2].work.latency, latency);
    EXPECT_EQ(entries[1].work.seconds, entries[0].work.seconds);
    const ReductionBuffers sum = {one.recv, one.send};
    ASSERT_TRUE(
        world->ReduceScatterAll({sum, sum}, ReduceOp::kSum, device.compute_stream(), "h.0").ok());
    ASSERT_EQ(entries.size(), 5u);
    EXPECT_GT(entries[3].work.latency, 0);
    EXPECT_EQ(entries[4].work.latency, together ? 0 : entries[3].work.latency);
  }
}

// Batched reductions hold what other ranks send for all buffers in memory at once.
TEST(PlannedCommunicatorTest, ReductionsTogetherAreStagedTogether) {
  for (const bool together : {true, false}) {
    PlannedCommunicator::Options options;
    options.reduction = PlannedCommunicator::Options::Reduction::kTree;
    options.calls_together = together;
    const auto world = *PlannedCommunicator::CreateWorld(TwoSpeeds(), 4, 0, options);
    PlannedDevice device(TwoSpeeds(), {});
    const auto reduction = [&](int64_t numel) {
      return ReductionBuffers{Floats(device, 4 * numel), Floats(device, numel)};
    };
    ASSERT_TRUE(world
                    ->ReduceScatterAll({reduction(1 << 18), reduction(1 << 16)}, ReduceOp::kSum,
                                       device.compute_stream(), "h.0")
                    .ok());
    const int64_t staged = 3 * 4 * ((1 << 18) + (together ? 1 << 16 : 0));
    EXPECT_EQ(device.allocator().stats()[MemoryCategory::kCommunication].current_bytes, staged);
  }
}

// NCCL's own sum needs scratch memory where it is not written to its destination at once.
TEST(PlannedCommunicatorTest, NcclNeedsScratchToAccumulate) {
  PlannedCommunicator::Options options;
  options.reduction = PlannedCommunicator::Options::Reduction::kLibrary;
  for (const bool accumulate : {false, true}) {
    const auto world = *PlannedCommunicator::CreateWorld(TwoSpeeds(), 4, 0, options);
    PlannedDevice device(TwoSpeeds(), {});
    ASSERT_TRUE(world
                    ->ReduceScatter(Floats(device, 4 << 18), Floats(device, 1 << 18),
                                    ReduceOp::kSum, device.compute_stream(), "h.0", accumulate)
                    .ok());
    EXPECT_EQ(device.allocator().stats()[MemoryCategory::kCommunication].current_bytes,
              accumulate ? 4 << 18 : 0);
    // The sum is read, and added to what is in memory.
    ASSERT_EQ(device.ledger().entries().size(), accumulate ? 2u : 1u);
    if (accumulate) {
      EXPECT_DOUBLE_EQ(device.ledger().entries()[1].work.seconds, 3 * (4 << 18) / 1e12);
    }
  }
}

TEST(PlannedCommunicatorTest, CopiesTakeABufferAndAPassOfTheUnitThatIsUnderWay) {
  PlannedCommunicator::Options options;
  options.copies_in_and_out = true;
  const auto world = *PlannedCommunicator::CreateWorld(TwoSpeeds(), 4, 0, options);
  PlannedDevice device(TwoSpeeds(), {});
  const auto in_buffers = [&] {
    return device.allocator().stats()[MemoryCategory::kCommunication].current_bytes;
  };
  const Tensor shard = Floats(device, 1 << 20);
  const Tensor full = Floats(device, 4 << 20);
  ASSERT_TRUE(world->AllGather(shard, full, device.compute_stream(), "large").ok());
  ASSERT_EQ(device.ledger().entries().size(), 2u);
  const PlannedWork& copy = device.ledger().entries()[1].work;
  EXPECT_EQ(copy.resource, Resource::kCompute);
  EXPECT_DOUBLE_EQ(copy.seconds, 2 * (16 << 20) / 1e12);  // reads and writes
  EXPECT_EQ(in_buffers(), 16 << 20);
  ASSERT_TRUE(world
                  ->AllGather(Floats(device, 1 << 10), Floats(device, 4 << 10),
                              device.compute_stream(), "small")
                  .ok());
  EXPECT_EQ(in_buffers(), 16 << 10);
}

// Another system cuts a collective into parts, each with its latency.
TEST(PlannedCommunicatorTest, PartsTakeALatencyEachAndTheLargestABuffer) {
  PlannedCommunicator::Options options;
  options.copies_in_and_out = true;
  options.parts = [](const Collective& collective) {
    EXPECT_EQ(collective.call.label, "h.0");
    return PlannedCommunicator::Parts{.collectives = 3, .elements = 1 << 10};
  };
  const auto world = *PlannedCommunicator::CreateWorld(TwoSpeeds(), 4, 0, options);
  PlannedDevice device(TwoSpeeds(), {});
  const Tensor shard = Floats(device, 1 << 10);
  const Tensor full = Floats(device, 4 << 10);
  ASSERT_TRUE(world->AllGather(shard, full, device.compute_stream(), "h.0").ok());
  const PlannedWork& work = device.ledger().entries()[0].work;
  EXPECT_DOUBLE_EQ(work.latency, 3 * 3e-6);
  EXPECT_DOUBLE_EQ(work.seconds, 3 * 4096 / 100e9);
  EXPECT_EQ(device.allocator().stats()[MemoryCategory::kCommunication].current_bytes, 4 << 10);
}

TEST(PlannedCommunicatorTest, ABucketStaysAndIsCopiedToBeReduced) {
  PlannedCommunicator::Options options;
  options.copies_in_and_out = true;
  options.reduce_bucket = 1 << 10;
  const auto world = *PlannedCommunicator::CreateWorld(TwoSpeeds(), 4, 0, options);
  PlannedDevice device(TwoSpeeds(), {});
  const auto reduce = [&](int64_t count, const std::string& label) {
    const Tensor all =
        *Tensor::Empty(device, Shape({4 * count}), DType::kBFloat16, MemoryCategory::kWorkspace);
    const Tensor mine =
        *Tensor::Empty(device, Shape({count}), DType::kBFloat16, MemoryCategory::kWorkspace);
    return world->ReduceScatter(all, mine, ReduceOp::kMean, device.compute_stream(), label,
                                /*accumulate=*/false);
  };
  const auto held = [&](MemoryCategory category) {
    return device.allocator().stats()[category].current_bytes;
  };
  ASSERT_TRUE(reduce(1 << 10, "h.0").ok());
  EXPECT_EQ(held(MemoryCategory::kGradients), 2 << 10);
  EXPECT_EQ(held(MemoryCategory::kCommunication), 2 << 10) << "no more than the bucket";
  ASSERT_TRUE(reduce(1 << 6, "root").ok());
  EXPECT_EQ(held(MemoryCategory::kGradients), 2 << 10);
  EXPECT_EQ(held(MemoryCategory::kCommunication), 0) << "the root's is the last of a backward";
}

// The groups that one rank creates alone equal those of real ranks.
TEST(PlannedCommunicatorTest, GroupsOfAMeshAreTheRealOnes) {
  const std::vector<MeshAxis> axes = {{"replicate", 2}, {"shard", 3}, {"tensor", 2}};
  const absl::Status status = RunLocalRanks(12, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto device, DeviceRegistry::Create("cpu", DeviceOptions()));
    device->BindThread();
    const auto planned_world = World(12, world.rank());
    ZEROTH_ASSIGN_OR_RETURN(const auto mesh, Mesh::Create(world, axes));
    ZEROTH_ASSIGN_OR_RETURN(const auto planned_mesh, Mesh::Create(*planned_world, axes));
    for (const Mesh::Axes& group :
         std::vector<Mesh::Axes>{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}, {1, 0}, {2, 1}}) {
      ZEROTH_ASSIGN_OR_RETURN(Communicator* const real, mesh->Group(group, Traffic::kReduce));
      ZEROTH_ASSIGN_OR_RETURN(Communicator* const planned,
                              planned_mesh->Group(group, Traffic::kReduce));
      const int32_t rank = world.rank();
      ZEROTH_ASSIGN_OR_RETURN(
          const Tensor mine,
          Tensor::FromHost<int32_t>(*device, Shape({1}), {&rank, 1}, MemoryCategory::kWorkspace));
      ZEROTH_ASSIGN_OR_RETURN(
          const Tensor all,
          Tensor::Empty(*device, Shape({real->size()}), DType::kInt32, MemoryCategory::kWorkspace));
      ZEROTH_RETURN_IF_ERROR(real->AllGather(mine, all, device->compute_stream(), "ranks"));
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> ranks, all.ToHost<int32_t>());
      EXPECT_EQ(static_cast<PlannedCommunicator*>(planned)->world_ranks(),
                std::vector<int>(ranks.begin(), ranks.end()));
      EXPECT_EQ(planned->rank(), real->rank());
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(PlannedCommunicatorTest, RefusesARankThatIsNotThere) {
  EXPECT_EQ(PlannedCommunicator::CreateWorld(TwoSpeeds(), 4, 4, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zeroth
