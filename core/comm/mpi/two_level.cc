// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/mpi/two_level.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"

#include "zeroth/core/comm/host_reduce.h"

namespace zeroth::mpi {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr int64_t kMostScratchBytes = int64_t{16} << 20;
constexpr int64_t kMostBlockBytes = int64_t{1} << 20;

using ConstPointers = absl::InlinedVector<const void*, 16>;

DType SumType(DType dtype) { return IsFloatingPoint(dtype) ? DType::kFloat32 : dtype; }

// The elements of a block that the scratch holds at once: those of two steps from the other ranks
// of the node, ...
int64_t LocalBlocks(const NodeGrid& grid) { return 2 * int64_t{grid.per_node - 1}; }
// ... the sums of two steps, and those of all nodes for two blocks.
int64_t SumBlocks(const NodeGrid& grid) { return 2 + 2 * int64_t{grid.nodes()}; }

int64_t ScratchBytesOfElement(const NodeGrid& grid, DType dtype) {
  return LocalBlocks(grid) * static_cast<int64_t>(SizeOf(dtype)) +
         SumBlocks(grid) * static_cast<int64_t>(SizeOf(SumType(dtype)));
}

int64_t BlockElements(const NodeGrid& grid, const Pieces& pieces, DType dtype) {
  const int64_t most = std::min(kMostScratchBytes / ScratchBytesOfElement(grid, dtype),
                                kMostBlockBytes / static_cast<int64_t>(SizeOf(SumType(dtype))));
  // Whole cache lines, of any type.
  const int64_t lines = std::max<int64_t>(most / kCacheLine, 1);
  // The first piece is the longest.
  return std::min(lines * kCacheLine, pieces.Count(0));
}

}  // namespace

size_t TwoLevelReduction::ScratchBytes(const NodeGrid& grid, const Pieces& pieces, DType dtype) {
  return static_cast<size_t>(BlockElements(grid, pieces, dtype) *
                             ScratchBytesOfElement(grid, dtype));
}

// The sums come first in the scratch, because their type is at least as wide.
TwoLevelReduction::TwoLevelReduction(const Collective& collective, const BufferView& from,
                                     const BufferView& to, const Pieces& pieces,
                                     const NodeGrid& grid, char* scratch)
    : collective_(collective),
      from_(from),
      to_(to),
      pieces_(pieces),
      grid_(grid),
      block_(BlockElements(grid, pieces, from.dtype)),
      local_(scratch + SumBlocks(grid) * block_ * static_cast<int64_t>(SizeOf(SumType(from.dtype))),
             LocalBlocks(grid) * block_, from.dtype),
      sums_(scratch, SumBlocks(grid) * block_, SumType(from.dtype)) {}

int64_t TwoLevelReduction::blocks() const {
  return block_ == 0 ? 0 : (pieces_.Count(0) + block_ - 1) / block_;
}

int64_t TwoLevelReduction::CountOf(int rank, int64_t block) const {
  return std::clamp(pieces_.Count(rank) - block * block_, int64_t{0}, block_);
}

BufferView TwoLevelReduction::Outgoing(int rank, int64_t block) const {
  return Range(from_, pieces_.Begin(rank) + block * block_, CountOf(rank, block));
}

BufferView TwoLevelReduction::LocalArrivals(int local, int64_t step) const {
  const int64_t place = local < grid_.local() ? local : local - 1;
  const int64_t slot = (step % 2) * (grid_.per_node - 1) + place;
  const int destination = grid_.RankOf(grid_.NodeAt(DistanceOf(step)), grid_.local());
  return Range(local_, slot * block_, CountOf(destination, BlockOf(step)));
}

BufferView TwoLevelReduction::LocalSums(int64_t step) const {
  const int64_t block = BlockOf(step);
  const int node = grid_.NodeAt(DistanceOf(step));
  if (node == grid_.node()) return NodeSums(node, block);
  return Range(sums_, step % 2 * block_, CountOf(grid_.RankOf(node, grid_.local()), block));
}

BufferView TwoLevelReduction::NodeSums(int node, int64_t block) const {
  const int64_t slot = 2 + block % 2 * grid_.nodes() + node;
  return Range(sums_, slot * block_, CountOf(grid_.rank, block));
}

std::vector<Message> TwoLevelReduction::LocalMessages(int64_t step) const {
  const int node = grid_.NodeAt(DistanceOf(step));
  std::vector<Message> messages;
  for (int turn = 1; turn < grid_.per_node; ++turn) {
    const int to = (grid_.local() + turn) % grid_.per_node;
    const int from = (grid_.local() + grid_.per_node - turn) % grid_.per_node;
    messages.push_back(
        Send(grid_.RankOf(grid_.node(), to), Outgoing(grid_.RankOf(node, to), BlockOf(step))));
    messages.push_back(Receive(grid_.RankOf(grid_.node(), from), LocalArrivals(from, step)));
  }
  return messages;
}

void TwoLevelReduction::AddLocal(int64_t step) const {
  const BufferView sums = LocalSums(step);
  if (sums.count == 0) return;
  const int node = grid_.NodeAt(DistanceOf(step));
  ConstPointers sources;
  for (int local = 0; local < grid_.per_node; ++local) {
    sources.push_back(local == grid_.local()
                          ? Outgoing(grid_.RankOf(node, local), BlockOf(step)).data
                          : LocalArrivals(local, step).data);
  }
  HostReduction reduction;
  reduction.sources = sources;
  reduction.destinations = absl::MakeConstSpan(&sums.data, 1);
  reduction.count = sums.count;
  reduction.dtype = from_.dtype;
  reduction.result_dtype = sums.dtype;
  reduction.op = *collective_.call.reduce == ReduceOp::kMax ? ReduceOp::kMax : ReduceOp::kSum;
  ReduceOnHost(reduction);
}

std::vector<Message> TwoLevelReduction::CrossMessages(int64_t step) const {
  const int64_t distance = DistanceOf(step);
  if (distance == 0) return {};
  const int from = grid_.NodeAt(-distance);
  return {Send(grid_.RankOf(grid_.NodeAt(distance), grid_.local()), LocalSums(step)),
          Receive(grid_.RankOf(from, grid_.local()), NodeSums(from, BlockOf(step)))};
}

void TwoLevelReduction::FinishBlock(int64_t block) const {
  const int64_t count = CountOf(grid_.rank, block);
  if (count == 0) return;
  ConstPointers sources;
  for (int node = 0; node < grid_.nodes(); ++node) sources.push_back(NodeSums(node, block).data);
  void* const destination = Range(to_, block * block_, count).data;
  HostReduction reduction =
      ReductionOf(collective_, sources, absl::MakeConstSpan(&destination, 1), count);
  reduction.dtype = sums_.dtype;
  reduction.mean_of = grid_.size;
  ReduceOnHost(reduction);
}

TwoLevelGather::TwoLevelGather(const NodeGrid& grid, std::function<BufferView(int)> place)
    : grid_(grid), place_(std::move(place)) {}

std::vector<Message> TwoLevelGather::CrossMessages(int step) const {
  if (step == 0) return {};
  const int to = grid_.RankOf(grid_.NodeAt(step), grid_.local());
  const int from = grid_.RankOf(grid_.NodeAt(-step), grid_.local());
  return {Send(to, place_(grid_.rank)), Receive(from, place_(from))};
}

std::vector<Message> TwoLevelGather::LocalMessages(int step) const {
  const int node = grid_.NodeAt(-step);
  std::vector<Message> messages;
  for (int turn = 1; turn < grid_.per_node; ++turn) {
    const int to = (grid_.local() + turn) % grid_.per_node;
    const int from = (grid_.local() + grid_.per_node - turn) % grid_.per_node;
    messages.push_back(
        Send(grid_.RankOf(grid_.node(), to), place_(grid_.RankOf(node, grid_.local()))));
    messages.push_back(Receive(grid_.RankOf(grid_.node(), from), place_(grid_.RankOf(node, from))));
  }
  return messages;
}

}  // namespace zeroth::mpi
