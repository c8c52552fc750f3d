// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Simulates all ranks in one thread, with memcpy for messages. mpi_test.cc and nccl_test.cc have
// real ones.

#include "zeroth/core/comm/two_level.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/testing/reduction_reference.h"

namespace zeroth {
namespace {

using ::zeroth::testing::AsFloat;
using ::zeroth::testing::RandomValue;
using ::zeroth::testing::ReferenceReduce;
using ::zeroth::testing::ReferenceReduceFloats;

struct Cluster {
  int nodes = 1;
  int per_node = 1;

  int size() const { return nodes * per_node; }
  NodeGrid GridOf(int rank) const { return {rank, size(), per_node}; }
};

// Messages of all ranks, by rank.
using Messages = std::vector<std::vector<RankMessage>>;

// Delivers messages and counts their bytes.
class Network {
 public:
  explicit Network(const Cluster& cluster)
      : cluster_(cluster),
        peers_(static_cast<size_t>(cluster.size())),
        bytes_leaving_(static_cast<size_t>(cluster.nodes)) {}

  // Copies what was sent, as late as a real network might.
  void Deliver(const Messages& messages) {
    Messages sent(messages.size());  // and not received yet
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      for (const RankMessage& message : messages[static_cast<size_t>(rank)]) {
        if (!message.is_send || message.data.count == 0) continue;
        sent[static_cast<size_t>(rank)].push_back(message);
        Count(rank, message);
      }
    }
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      for (const RankMessage& message : messages[static_cast<size_t>(rank)]) {
        if (message.is_send || message.data.count == 0) continue;
        std::vector<RankMessage>& waiting = sent[static_cast<size_t>(message.peer)];
        const auto first = std::find_if(waiting.begin(), waiting.end(),
                                        [&](const RankMessage& m) { return m.peer == rank; });
        ASSERT_NE(first, waiting.end()) << "rank " << rank << " waits for rank " << message.peer;
        ASSERT_EQ(ByteSize(first->data), ByteSize(message.data));
        std::memcpy(message.data.data, first->data.data,
                    static_cast<size_t>(ByteSize(message.data)));
        waiting.erase(first);
      }
    }
    for (const auto& waiting : sent) EXPECT_TRUE(waiting.empty()) << "nobody receives a message";
  }

  int64_t bytes_leaving(int node) const { return bytes_leaving_[static_cast<size_t>(node)]; }
  int peers(int rank) const { return static_cast<int>(peers_[static_cast<size_t>(rank)].size()); }

 private:
  void Count(int rank, const RankMessage& message) {
    peers_[static_cast<size_t>(rank)].insert(message.peer);
    const int node = cluster_.GridOf(rank).node();
    if (cluster_.GridOf(message.peer).node() != node) {
      bytes_leaving_[static_cast<size_t>(node)] += ByteSize(message.data);
    }
  }

  const Cluster cluster_;
  std::vector<std::set<int>> peers_;
  std::vector<int64_t> bytes_leaving_;
};

template <typename Function>
Messages OfAll(int size, Function function) {
  Messages messages;
  for (int rank = 0; rank < size; ++rank) messages.push_back(function(static_cast<size_t>(rank)));
  return messages;
}

// How the simulated transport works.
enum class Transport : uint8_t {
  kLate,     // messages arrive inside a node as early as they may, and between nodes as late
  kEarly,    // all arrive as early as they may
  kInOrder,  // RunInOrder
};

// Uses MPI's small scratch for both transports, so that little data makes several blocks.
TwoLevelReduction::Limits LimitsOf(Transport transport, const NodeGrid& grid) {
  TwoLevelReduction::Limits limits;
  if (transport == Transport::kInOrder) {
    limits.steps = LimitsInOrder(grid).steps;
    limits.blocks = LimitsInOrder(grid).blocks;
  }
  return limits;
}

// Runs the steps on all ranks.
void RunAtOnce(std::vector<TwoLevelReduction>& ranks, const Cluster& cluster, Network& network,
               bool late) {
  const int64_t steps = ranks.front().steps();
  const auto local = [&](int64_t step) {
    network.Deliver(
        OfAll(cluster.size(), [&](size_t rank) { return ranks[rank].LocalMessages(step); }));
  };
  const auto finish = [&](int64_t block) {
    for (const auto& rank : ranks) ReduceOnHost(rank.FinishBlock(block));
  };
  std::vector<Messages> cross(static_cast<size_t>(steps));
  local(0);
  for (int64_t step = 0; step < steps; ++step) {
    if (step + 1 < steps) local(step + 1);
    if (late && step >= 2) network.Deliver(cross[static_cast<size_t>(step - 2)]);
    for (const auto& rank : ranks) ReduceOnHost(rank.AddLocal(step));
    cross[static_cast<size_t>(step)] =
        OfAll(cluster.size(), [&](size_t rank) { return ranks[rank].CrossMessages(step); });
    if (!late) network.Deliver(cross[static_cast<size_t>(step)]);
    if (step > 0 && step % cluster.nodes == 0) finish(step / cluster.nodes - 1);
  }
  if (late) network.Deliver(cross[static_cast<size_t>(steps - 2)]);
  finish(ranks.front().blocks() - 1);
}

// Calls RunInOrder on all ranks. The n-th exchange, with the sums after it, is one step on all.
void RunAllInOrder(const std::vector<TwoLevelReduction>& ranks, const Cluster& cluster,
                   Network& network) {
  struct Step {
    std::vector<RankMessage> messages;
    std::vector<StridedReduction> sums;
  };
  std::vector<std::vector<Step>> programs;
  for (const TwoLevelReduction& rank : ranks) {
    std::vector<Step>& program = programs.emplace_back();
    const absl::Status status = RunInOrder(
        {&rank, 1},
        [&](const std::vector<RankMessage>& messages) {
          program.push_back({messages, {}});
          return absl::OkStatus();
        },
        [&](const StridedReduction& sum) {
          program.back().sums.push_back(sum);
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(program.size(), programs.front().size());
  }
  for (size_t i = 0; i < programs.front().size(); ++i) {
    network.Deliver(OfAll(cluster.size(), [&](size_t rank) { return programs[rank][i].messages; }));
    for (const auto& program : programs) {
      for (const StridedReduction& sum : program[i].sums) ReduceOnHost(sum);
    }
  }
}

// One reduction by all ranks.
template <typename T, typename Result = T>
class Simulation {
 public:
  Simulation(const Cluster& cluster, Pieces pieces, ReduceOp op, Transport transport,
             bool accumulate = false)
      : cluster_(cluster), pieces_(pieces), op_(op), accumulate_(accumulate), network_(cluster) {
    collective_.op = CollectiveOp::kReduceScatter;
    collective_.call.reduce = op;
    collective_.send.dtype = DTypeOf<T>::value;
    collective_.recv.dtype = DTypeOf<Result>::value;
    collective_.accumulate = accumulate;
    std::vector<std::vector<char>> scratch;
    std::vector<TwoLevelReduction> ranks;
    const TwoLevelReduction::Limits limits = LimitsOf(transport, cluster.GridOf(0));
    for (int rank = 0; rank < cluster.size(); ++rank) {
      const CounterRng rng(21, std::to_string(rank));
      std::vector<T>& values = values_.emplace_back(static_cast<size_t>(pieces.count));
      for (size_t i = 0; i < values.size(); ++i) values[i] = RandomValue<T>(rng, i);
      results_.emplace_back(static_cast<size_t>(pieces.Count(rank)), Result{});
    }
    scratch_bytes_ =
        TwoLevelReduction::ScratchBytes(cluster.GridOf(0), pieces, collective_.send.dtype, limits);
    for (int rank = 0; rank < cluster.size(); ++rank) {
      const auto r = static_cast<size_t>(rank);
      scratch.emplace_back(scratch_bytes_);
      if constexpr (std::is_same_v<Result, float>) {
        std::fill(results_[r].begin(), results_[r].end(), 1.5f);
      }
      ranks.emplace_back(collective_,
                         BufferView(values_[r].data(), pieces.count, DTypeOf<T>::value),
                         BufferView(results_[r].data(), pieces.Count(rank), DTypeOf<Result>::value),
                         pieces, cluster.GridOf(rank), limits, scratch.back().data());
    }
    blocks_ = ranks.front().blocks();
    if (transport == Transport::kInOrder) {
      RunAllInOrder(ranks, cluster, network_);
    } else if (blocks_ > 0) {
      RunAtOnce(ranks, cluster, network_, transport == Transport::kLate);
    }
  }

  // Compares every `stride`-th element.
  void ExpectTheBitsOfTheTree(int64_t stride = 1) const {
    std::vector<T> column(values_.size());
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      for (int64_t i = 0; i < pieces_.Count(rank); i += stride) {
        for (size_t r = 0; r < column.size(); ++r) {
          column[r] = values_[r][static_cast<size_t>(pieces_.Begin(rank) + i)];
        }
        const Result expected = Expected(column);
        ASSERT_EQ(std::memcmp(&results_[static_cast<size_t>(rank)][static_cast<size_t>(i)],
                              &expected, sizeof(Result)),
                  0)
            << "element " << i << " of rank " << rank;
      }
    }
  }

  const Network& network() const { return network_; }
  int64_t blocks() const { return blocks_; }
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  Result Expected(const std::vector<T>& column) const {
    if constexpr (std::is_same_v<T, Result>) {
      if (!accumulate_) return ReferenceReduce<T>(op_, column);
    }
    if constexpr (std::is_same_v<Result, float>) {
      std::vector<float> floats;
      for (T value : column) floats.push_back(AsFloat(value));
      volatile float sum = ReferenceReduceFloats(op_, floats);
      return accumulate_ ? 1.5f + sum : sum;
    }
    return Result{};
  }

  const Cluster cluster_;
  const Pieces pieces_;
  const ReduceOp op_;
  const bool accumulate_;
  Network network_;
  Collective collective_;
  std::vector<std::vector<T>> values_;
  std::vector<std::vector<Result>> results_;
  int64_t blocks_ = 0;
  size_t scratch_bytes_ = 0;
};

Pieces Equal(const Cluster& cluster, int64_t piece) { return {piece, piece * cluster.size()}; }

constexpr Transport kTransports[] = {Transport::kLate, Transport::kEarly, Transport::kInOrder};

template <typename T>
void ExpectBits(const Cluster& cluster, const Pieces& pieces, const std::vector<ReduceOp>& ops) {
  SCOPED_TRACE(::testing::Message() << cluster.nodes << " x " << cluster.per_node << ", pieces of "
                                    << pieces.piece << " of " << pieces.count);
  for (const Transport transport : kTransports) {
    for (ReduceOp op : ops) {
      Simulation<T>(cluster, pieces, op, transport).ExpectTheBitsOfTheTree();
    }
  }
}

constexpr ReduceOp kFloatOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax};
constexpr ReduceOp kIntegerOps[] = {ReduceOp::kSum, ReduceOp::kMax};
constexpr Cluster kClusters[] = {{2, 2}, {2, 4}, {3, 2}, {5, 4}, {8, 8}, {11, 2}};

TEST(TwoLevelReductionTest, HasTheBitsOfTheTree) {
  for (const Cluster& cluster : kClusters) {
    // The last pieces of a buffer may be shorter, or empty.
    for (const Pieces& pieces : {Equal(cluster, 0), Equal(cluster, 1), Equal(cluster, 37),
                                 Pieces{16, 16 * cluster.size() - 5}, Pieces{16, 40}}) {
      const std::vector<ReduceOp> floats(std::begin(kFloatOps), std::end(kFloatOps));
      const std::vector<ReduceOp> integers(std::begin(kIntegerOps), std::end(kIntegerOps));
      ExpectBits<float>(cluster, pieces, floats);
      ExpectBits<BFloat16>(cluster, pieces, floats);
      ExpectBits<Float16>(cluster, pieces, floats);
      ExpectBits<int64_t>(cluster, pieces, integers);
      ExpectBits<uint8_t>(cluster, pieces, integers);
    }
  }
}

// All divisions of up to 64 ranks into nodes of a power of two.
TEST(TwoLevelReductionTest, HasTheBitsOfTheTreeInEveryCluster) {
  const CounterRng rng(22, "pieces");
  uint64_t draw = 0;
  const auto below = [&](int64_t limit) {
    return static_cast<int64_t>(rng.Uniform(draw++) * static_cast<float>(limit));
  };
  for (int size = 2; size <= 64; ++size) {
    for (int per_node = 2; per_node < size; per_node *= 2) {
      if (size % per_node != 0) continue;
      const Cluster cluster = {size / per_node, per_node};
      const int64_t piece = 1 + below(90);
      const Pieces pieces = {piece, below(piece * size)};
      ExpectBits<float>(cluster, pieces, {ReduceOp::kSum});
      ExpectBits<BFloat16>(cluster, pieces, {ReduceOp::kMean});
      ExpectBits<int32_t>(cluster, pieces, {ReduceOp::kSum});
    }
  }
}

TEST(TwoLevelReductionTest, WritesAndAccumulatesUnroundedSums) {
  for (const Cluster& cluster : kClusters) {
    const Pieces pieces = Equal(cluster, 19);
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
      for (const Transport transport : kTransports) {
        Simulation<BFloat16, float>(cluster, pieces, op, transport).ExpectTheBitsOfTheTree();
        Simulation<BFloat16, float>(cluster, pieces, op, transport, /*accumulate=*/true)
            .ExpectTheBitsOfTheTree();
        Simulation<float>(cluster, pieces, op, transport, /*accumulate=*/true)
            .ExpectTheBitsOfTheTree();
      }
    }
  }
}

// From the third block on, the memory of an earlier block is reused.
TEST(TwoLevelReductionTest, WorksInBlocksOfLittleMemory) {
  for (const Cluster& cluster : {Cluster{2, 2}, Cluster{3, 2}}) {
    for (const Transport transport : kTransports) {
      const Simulation<BFloat16> simulation(cluster, Equal(cluster, 600001), ReduceOp::kMean,
                                            transport);
      EXPECT_EQ(simulation.blocks(), 3);
      EXPECT_LE(simulation.scratch_bytes(), size_t{16} << 20);
      simulation.ExpectTheBitsOfTheTree(97);
    }
  }
  // The nodes are more than the steps of an exchange, and not a multiple of them.
  const Simulation<int32_t> many({9, 2}, Equal({9, 2}, 170001), ReduceOp::kSum,
                                 Transport::kInOrder);
  EXPECT_EQ(many.blocks(), 2);
  many.ExpectTheBitsOfTheTree(997);
  for (const Cluster& cluster : {Cluster{8, 8}, Cluster{128, 8}, Cluster{512, 8}}) {
    const Pieces large = Equal(cluster, int64_t{1} << 30);
    const NodeGrid grid = cluster.GridOf(0);
    for (const TwoLevelReduction::Limits& limits :
         {TwoLevelReduction::Limits(), LimitsInOrder(grid)}) {
      const auto bytes = static_cast<int64_t>(
          TwoLevelReduction::ScratchBytes(grid, large, DType::kFloat32, limits));
      EXPECT_LE(bytes, limits.scratch_bytes);
      EXPECT_GT(bytes, limits.scratch_bytes / 16 * 15);
    }
  }
}

// In one all-to-all, a node of g ranks would send g (N - 1)/N times a buffer.
TEST(TwoLevelReductionTest, ANodeSendsTheBytesOfARing) {
  for (const Cluster& cluster : {Cluster{2, 4}, Cluster{8, 8}, Cluster{128, 8}}) {
    SCOPED_TRACE(::testing::Message() << cluster.nodes << " x " << cluster.per_node);
    const int64_t piece = 1;
    const int64_t elements = piece * cluster.size();
    // (N - 1)/N of the buffer, in fp32 whatever its type.
    const int64_t ring = elements / cluster.nodes * (cluster.nodes - 1) * 4;
    for (const Transport transport : {Transport::kEarly, Transport::kInOrder}) {
      const Simulation<float> floats(cluster, Equal(cluster, piece), ReduceOp::kSum, transport);
      floats.ExpectTheBitsOfTheTree();
      const Simulation<BFloat16> halves(cluster, Equal(cluster, piece), ReduceOp::kSum, transport);
      halves.ExpectTheBitsOfTheTree();
      for (int node = 0; node < cluster.nodes; ++node) {
        EXPECT_EQ(floats.network().bytes_leaving(node), ring);
        EXPECT_EQ(halves.network().bytes_leaving(node), ring);
      }
      for (int rank = 0; rank < cluster.size(); ++rank) {
        EXPECT_EQ(floats.network().peers(rank), cluster.nodes + cluster.per_node - 2);
      }
    }
  }
}

TEST(TwoLevelGatherTest, BringsEveryPieceEverywhereWithTheBytesOfARing) {
  for (const Cluster& cluster : {Cluster{2, 4}, Cluster{3, 2}, Cluster{8, 8}, Cluster{128, 8}}) {
    SCOPED_TRACE(::testing::Message() << cluster.nodes << " x " << cluster.per_node);
    const int size = cluster.size();
    const Pieces pieces = Equal(cluster, 2);
    std::vector<std::vector<int32_t>> buffers(static_cast<size_t>(size));
    std::vector<TwoLevelGather> ranks;
    for (int rank = 0; rank < size; ++rank) {
      std::vector<int32_t>& buffer = buffers[static_cast<size_t>(rank)];
      buffer.resize(static_cast<size_t>(pieces.count), -1);
      for (int64_t i = 0; i < pieces.Count(rank); ++i) {
        const int64_t at = pieces.Begin(rank) + i;
        buffer[static_cast<size_t>(at)] = static_cast<int32_t>(at);
      }
      const BufferView view(buffer.data(), pieces.count, DType::kInt32);
      ranks.emplace_back(cluster.GridOf(rank),
                         [view, pieces](int place) { return pieces.Of(view, place); });
    }
    Network network(cluster);
    for (int step = 0; step < cluster.nodes; ++step) {
      network.Deliver(OfAll(size, [&](size_t rank) { return ranks[rank].CrossMessages(step); }));
      network.Deliver(OfAll(size, [&](size_t rank) { return ranks[rank].LocalMessages(step); }));
    }
    std::vector<int32_t> expected(static_cast<size_t>(pieces.count));
    std::iota(expected.begin(), expected.end(), 0);
    for (const std::vector<int32_t>& buffer : buffers) ASSERT_TRUE(buffer == expected);
    for (int node = 0; node < cluster.nodes; ++node) {
      EXPECT_EQ(network.bytes_leaving(node),
                pieces.count / cluster.nodes * (cluster.nodes - 1) * 4);
    }
    EXPECT_EQ(network.peers(0), cluster.nodes + cluster.per_node - 2);
  }
}

}  // namespace
}  // namespace zeroth
