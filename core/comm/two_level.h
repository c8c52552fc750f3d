// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Reductions and gathers over several nodes: ranks of a node first exchange data inside it, then
// ranks of one local index exchange data across nodes. With g ranks on each of N nodes, a rank has
// N + g - 2 peers instead of N g - 1, and a node sends 1/g of the elements that it would send in
// one all-to-all, as fp32 sums.
//
// This is the schedule alone: which messages to send and which sums to make. A transport moves and
// adds.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/host_reduce.h"

namespace zeroth {

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
  // Returns the node `distance` after this one, cyclically. Negative: before it.
  int NodeAt(int64_t distance) const {
    return static_cast<int>((node() + distance + nodes()) % nodes());
  }
  int RankOf(int node, int local) const { return node * per_node + local; }
};

// Returns the type in which a node's sums of `dtype` go to other nodes.
DType SumType(DType dtype);

// Reduces this rank's piece of all ranks' `from` into `to`, with the bits of the tree of
// communicator.h: a node is a subtree, whose sums go to other nodes unrounded, in fp32. The sums of
// integers keep their type.
//
// The work is divided into blocks of the pieces, and a block into one step for each node. In a step
// a rank exchanges, inside its node, a block of the pieces of one destination node, adds it, and
// sends the sums to that node. With Limits L, the caller must keep this order on every rank:
// - LocalMessages(s) start when AddLocal(s - L.steps) has ended.
// - AddLocal(s) starts when LocalMessages(s) and CrossMessages(s - L.steps) have ended, and, in the
//   last step of block b, when FinishBlock(b - L.blocks) has.
// - CrossMessages(s) of block b start when AddLocal(s) and FinishBlock(b - L.blocks) have ended.
// - FinishBlock(b) starts when all steps of block b have ended.
class TwoLevelReduction {
 public:
  struct Limits {
    // The number of consecutive steps, and of blocks, that have memory at the same time.
    int steps = 2;
    int blocks = 2;
    // ScratchBytes is at most this, unless there are so many ranks that a block of 64 elements
    // takes more.
    int64_t scratch_bytes = int64_t{16} << 20;
    int64_t block_bytes = int64_t{1} << 20;  // of sums
  };

  // Returns the bytes of scratch, a multiple of 64.
  static size_t ScratchBytes(const NodeGrid& grid, const Pieces& pieces, DType dtype,
                             const Limits& limits);

  // Keeps a reference to `collective`. `scratch` has ScratchBytes.
  TwoLevelReduction(const Collective& collective, const BufferView& from, const BufferView& to,
                    const Pieces& pieces, const NodeGrid& grid, const Limits& limits,
                    char* scratch);

  const NodeGrid& grid() const { return grid_; }
  const Limits& limits() const { return limits_; }
  int64_t blocks() const;
  int64_t steps() const { return blocks() * grid_.nodes(); }

  std::vector<RankMessage> LocalMessages(int64_t step) const;
  StridedReduction AddLocal(int64_t step) const;
  // Empty in the last step of a block, whose sums are for this node.
  std::vector<RankMessage> CrossMessages(int64_t step) const;
  // Adds the nodes' sums.
  StridedReduction FinishBlock(int64_t block) const;

 private:
  int64_t BlockOf(int64_t step) const { return step / grid_.nodes(); }
  // Returns how many nodes after this one the step's destination is.
  int64_t DistanceOf(int64_t step) const { return (step % grid_.nodes() + 1) % grid_.nodes(); }
  // Returns the elements of block `block` in `rank`'s piece.
  int64_t CountOf(int rank, int64_t block) const;
  BufferView Outgoing(int rank, int64_t block) const;
  // Returns where the elements of the rank at `place` among the other ranks of this node arrive.
  BufferView LocalArrivals(int place, int64_t step) const;
  // Returns the sums of this node for the step's destination.
  BufferView LocalSums(int64_t step) const;
  // Returns the sums of `node` for this rank.
  BufferView NodeSums(int node, int64_t block) const;

  const Collective& collective_;
  const BufferView from_;
  const BufferView to_;
  const Pieces pieces_;
  const NodeGrid grid_;
  const Limits limits_;
  const int64_t block_;  // elements
  const BufferView local_;
  const BufferView sums_;
};

// Returns the limits for RunInOrder: up to 64 MiB of scratch, since each exchange takes time to
// start.
TwoLevelReduction::Limits LimitsInOrder(const NodeGrid& grid);

// Runs reductions of one grid side by side, on a transport that carries out everything in the order
// of the calls, as a stream does. Each call of `exchange` has messages that may move at once: those
// inside nodes of some steps, with those across nodes of the steps before. All ranks call it
// equally often.
absl::Status RunInOrder(
    absl::Span<const TwoLevelReduction> reductions,
    absl::FunctionRef<absl::Status(const std::vector<RankMessage>& messages)> exchange,
    absl::FunctionRef<absl::Status(const StridedReduction& sum)> add);

// An all-gather: each rank sends its piece to the ranks with its local index on all other nodes,
// and forwards each piece that arrives to the other ranks of its node. `place(rank)` is the
// destination of the piece of `rank`; this rank's own piece is there already, and step 0 forwards
// it. LocalMessages(s) may start when CrossMessages(s) have ended. Steps may overlap.
class TwoLevelGather {
 public:
  TwoLevelGather(const NodeGrid& grid, std::function<BufferView(int)> place);

  int steps() const { return grid_.nodes(); }
  std::vector<RankMessage> CrossMessages(int step) const;
  std::vector<RankMessage> LocalMessages(int step) const;

 private:
  const NodeGrid grid_;
  const std::function<BufferView(int)> place_;
};

}  // namespace zeroth
