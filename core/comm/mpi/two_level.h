// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Reductions and gathers over several nodes: ranks of a node first exchange data inside it, then
// ranks of one local index exchange data across nodes. With g ranks on each of N nodes, a rank has
// N + g - 2 peers instead of N g - 1, and a node sends 1/g of what it would in one all-to-all.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/mpi/mpi_library.h"

namespace zeroth::mpi {

inline Message Send(int peer, const BufferView& view) {
  return {Message::Way::kSend, peer, view.data, ByteSize(view)};
}
inline Message Receive(int peer, const BufferView& view) {
  return {Message::Way::kReceive, peer, view.data, ByteSize(view)};
}

// One rank's place in its group, whose nodes have `per_node` consecutive ranks each
// (process/node.h). With per_node == 1 the group is not divided.
struct NodeGrid {
  int rank = 0;
  int size = 1;
  int per_node = 1;

  bool has_two_levels() const { return per_node > 1; }
  int nodes() const { return size / per_node; }
  int node() const { return rank / per_node; }
  int local() const { return rank % per_node; }
  // The node that is `distance` behind this one. Negative: before it.
  int NodeAt(int64_t distance) const {
    return static_cast<int>((node() + distance + nodes()) % nodes());
  }
  int RankOf(int node, int local) const { return node * per_node + local; }
};

// Reduces this rank's piece of all ranks' `from` into `to`, with the bits of the tree of
// communicator.h: a node is a subtree, whose sums go to other nodes unrounded, in fp32. The sums of
// integers keep their type.
//
// The work is divided into steps. In a step a rank exchanges, inside its node, a block of the
// pieces of one destination node, adds it, and sends the sums to that node. A block ends after one
// step for each node. The caller moves the messages. It may start a step's local messages before
// it adds the step before, and must end them before it adds the step. The cross messages of a step
// must end before the step after the next is added, those of a block before the block is finished.
// A block must be finished before the cross messages of the block after the next start.
class TwoLevelReduction {
 public:
  // At most 16 MiB, unless there are so many ranks that a cache line of each takes more.
  static size_t ScratchBytes(const NodeGrid& grid, const Pieces& pieces, DType dtype);

  // Keeps a reference to `collective`. `scratch` has ScratchBytes.
  TwoLevelReduction(const Collective& collective, const BufferView& from, const BufferView& to,
                    const Pieces& pieces, const NodeGrid& grid, char* scratch);

  int64_t blocks() const;
  int64_t steps() const { return blocks() * grid_.nodes(); }

  std::vector<Message> LocalMessages(int64_t step) const;
  void AddLocal(int64_t step) const;
  // None in the last step of a block, whose sums are for this node.
  std::vector<Message> CrossMessages(int64_t step) const;
  // Adds the nodes' sums.
  void FinishBlock(int64_t block) const;

 private:
  int64_t BlockOf(int64_t step) const { return step / grid_.nodes(); }
  // How far behind this node the step's destination is.
  int64_t DistanceOf(int64_t step) const { return (step % grid_.nodes() + 1) % grid_.nodes(); }
  // Elements of block `block` in `rank`'s piece.
  int64_t CountOf(int rank, int64_t block) const;
  BufferView Outgoing(int rank, int64_t block) const;
  // Where the elements of the rank of this node arrive that has this local index.
  BufferView LocalArrivals(int local, int64_t step) const;
  // The sums of this node for the step's destination.
  BufferView LocalSums(int64_t step) const;
  // The sums of `node` for this rank.
  BufferView NodeSums(int node, int64_t block) const;

  const Collective& collective_;
  const BufferView from_;
  const BufferView to_;
  const Pieces pieces_;
  const NodeGrid grid_;
  const int64_t block_;  // elements
  const BufferView local_;
  const BufferView sums_;
};

// Sends this rank's piece to the ranks of its local index on all other nodes, and what arrives, to
// all ranks of its node. `place(rank)` is where the piece of `rank` belongs; this rank's is there.
// Step 0 is that of this rank's own piece. The local messages of a step may start when its cross
// messages have ended. Steps may overlap.
class TwoLevelGather {
 public:
  TwoLevelGather(const NodeGrid& grid, std::function<BufferView(int)> place);

  int steps() const { return grid_.nodes(); }
  std::vector<Message> CrossMessages(int step) const;
  std::vector<Message> LocalMessages(int step) const;

 private:
  const NodeGrid grid_;
  const std::function<BufferView(int)> place_;
};

}  // namespace zeroth::mpi
