// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/two_level.h"

#include <algorithm>
#include <utility>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Elements. Blocks are multiples of this, and so whole cache lines of any type.
constexpr int64_t kLine = 64;
// Messages of more steps take less time to start, but with more steps blocks are smaller.
constexpr int kMostStepsInOrder = 8;

using Limits = TwoLevelReduction::Limits;

int64_t SumBytes(DType dtype) { return static_cast<int64_t>(SizeOf(SumType(dtype))); }

// Returns the blocks of scratch for what arrives in some steps from the other ranks of the node.
int64_t LocalBlocks(const NodeGrid& grid, const Limits& limits) {
  return int64_t{limits.steps} * (grid.per_node - 1);
}
// Returns the blocks of scratch for the sums of these steps, and for those of all nodes for some
// blocks.
int64_t SumBlocks(const NodeGrid& grid, const Limits& limits) {
  return limits.steps + int64_t{limits.blocks} * grid.nodes();
}

int64_t ScratchBytesOfElement(const NodeGrid& grid, DType dtype, const Limits& limits) {
  return LocalBlocks(grid, limits) * static_cast<int64_t>(SizeOf(dtype)) +
         SumBlocks(grid, limits) * SumBytes(dtype);
}

int64_t BlockElements(const NodeGrid& grid, const Pieces& pieces, DType dtype,
                      const Limits& limits) {
  const int64_t most = std::min(limits.scratch_bytes / ScratchBytesOfElement(grid, dtype, limits),
                                limits.block_bytes / SumBytes(dtype));
  // The first piece is the longest.
  const int64_t lines = (pieces.Count(0) + kLine - 1) / kLine;
  return std::min(std::max<int64_t>(most / kLine, 1), lines) * kLine;
}

}  // namespace

DType SumType(DType dtype) { return IsFloatingPoint(dtype) ? DType::kFloat32 : dtype; }

size_t TwoLevelReduction::ScratchBytes(const NodeGrid& grid, const Pieces& pieces, DType dtype,
                                       const Limits& limits) {
  return static_cast<size_t>(BlockElements(grid, pieces, dtype, limits) *
                             ScratchBytesOfElement(grid, dtype, limits));
}

// The sums come first in the scratch, because their type is at least as wide.
TwoLevelReduction::TwoLevelReduction(const Collective& collective, const BufferView& from,
                                     const BufferView& to, const Pieces& pieces,
                                     const NodeGrid& grid, const Limits& limits, char* scratch)
    : collective_(collective),
      from_(from),
      to_(to),
      pieces_(pieces),
      grid_(grid),
      limits_(limits),
      block_(BlockElements(grid, pieces, from.dtype, limits)),
      local_(scratch + SumBlocks(grid, limits) * block_ * SumBytes(from.dtype),
             LocalBlocks(grid, limits) * block_, from.dtype),
      sums_(scratch, SumBlocks(grid, limits) * block_, SumType(from.dtype)) {}

int64_t TwoLevelReduction::blocks() const {
  return block_ == 0 ? 0 : (pieces_.Count(0) + block_ - 1) / block_;
}

int64_t TwoLevelReduction::CountOf(int rank, int64_t block) const {
  return std::clamp(pieces_.Count(rank) - block * block_, int64_t{0}, block_);
}

BufferView TwoLevelReduction::Outgoing(int rank, int64_t block) const {
  return Range(from_, pieces_.Begin(rank) + block * block_, CountOf(rank, block));
}

BufferView TwoLevelReduction::LocalArrivals(int place, int64_t step) const {
  const int64_t slot = step % limits_.steps * (grid_.per_node - 1) + place;
  const int destination = grid_.RankOf(grid_.NodeAt(DistanceOf(step)), grid_.local());
  return Range(local_, slot * block_, CountOf(destination, BlockOf(step)));
}

BufferView TwoLevelReduction::LocalSums(int64_t step) const {
  const int64_t block = BlockOf(step);
  const int node = grid_.NodeAt(DistanceOf(step));
  if (node == grid_.node()) return NodeSums(node, block);
  return Range(sums_, step % limits_.steps * block_,
               CountOf(grid_.RankOf(node, grid_.local()), block));
}

BufferView TwoLevelReduction::NodeSums(int node, int64_t block) const {
  const int64_t slot = limits_.steps + block % limits_.blocks * grid_.nodes() + node;
  return Range(sums_, slot * block_, CountOf(grid_.rank, block));
}

std::vector<RankMessage> TwoLevelReduction::LocalMessages(int64_t step) const {
  const int node = grid_.NodeAt(DistanceOf(step));
  std::vector<RankMessage> messages;
  for (int turn = 1; turn < grid_.per_node; ++turn) {
    const int to = (grid_.local() + turn) % grid_.per_node;
    const int from = (grid_.local() + grid_.per_node - turn) % grid_.per_node;
    messages.push_back(
        SendTo(grid_.RankOf(grid_.node(), to), Outgoing(grid_.RankOf(node, to), BlockOf(step))));
    messages.push_back(ReceiveFrom(grid_.RankOf(grid_.node(), from),
                                   LocalArrivals(from < grid_.local() ? from : from - 1, step)));
  }
  return messages;
}

StridedReduction TwoLevelReduction::AddLocal(int64_t step) const {
  const BufferView sums = LocalSums(step);
  const int node = grid_.NodeAt(DistanceOf(step));
  StridedReduction reduction;
  reduction.others = LocalArrivals(0, step).data;
  reduction.bytes_per_rank = block_ * static_cast<int64_t>(SizeOf(from_.dtype));
  reduction.ranks = grid_.per_node;
  reduction.own = grid_.local();
  reduction.own_elements = Outgoing(grid_.RankOf(node, grid_.local()), BlockOf(step)).data;
  reduction.destination = sums.data;
  reduction.count = sums.count;
  reduction.dtype = from_.dtype;
  reduction.result_dtype = sums.dtype;
  // Sums only: FinishBlock divides by the number of all ranks.
  reduction.op = *collective_.call.reduce == ReduceOp::kMax ? ReduceOp::kMax : ReduceOp::kSum;
  return reduction;
}

std::vector<RankMessage> TwoLevelReduction::CrossMessages(int64_t step) const {
  const int64_t distance = DistanceOf(step);
  if (distance == 0) return {};
  const int from = grid_.NodeAt(-distance);
  return {SendTo(grid_.RankOf(grid_.NodeAt(distance), grid_.local()), LocalSums(step)),
          ReceiveFrom(grid_.RankOf(from, grid_.local()), NodeSums(from, BlockOf(step)))};
}

StridedReduction TwoLevelReduction::FinishBlock(int64_t block) const {
  const int64_t count = CountOf(grid_.rank, block);
  StridedReduction reduction;
  reduction.others = NodeSums(0, block).data;
  reduction.bytes_per_rank = block_ * SumBytes(from_.dtype);
  reduction.ranks = grid_.nodes();
  reduction.destination = Range(to_, block * block_, count).data;
  reduction.count = count;
  reduction.dtype = sums_.dtype;
  reduction.result_dtype = to_.dtype;
  reduction.op = *collective_.call.reduce;
  reduction.mean_of = grid_.size;
  reduction.accumulate = collective_.accumulate;
  return reduction;
}

Limits LimitsInOrder(const NodeGrid& grid) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  return {.steps = std::min(grid.nodes(), kMostStepsInOrder),
          .blocks = 1,
          .scratch_bytes = kBytes,
          .block_bytes = kBytes};
}

absl::Status RunInOrder(
    absl::Span<const TwoLevelReduction> reductions,
    absl::FunctionRef<absl::Status(const std::vector<RankMessage>& messages)> exchange,
    absl::FunctionRef<absl::Status(const StridedReduction& sum)> add) {
  int64_t blocks = 0;
  for (const TwoLevelReduction& reduction : reductions) {
    blocks = std::max(blocks, reduction.blocks());
  }
  if (blocks == 0) return absl::OkStatus();
  const int64_t nodes = reductions[0].grid().nodes();
  const int64_t at_once = reductions[0].limits().steps;
  std::vector<RankMessage> messages;
  const auto append = [&](const std::vector<RankMessage>& more) {
    messages.insert(messages.end(), more.begin(), more.end());
  };
  const auto finish = [&](int64_t block) -> absl::Status {
    for (const TwoLevelReduction& reduction : reductions) {
      if (block >= reduction.blocks()) continue;
      ZEROTH_RETURN_IF_ERROR(add(reduction.FinishBlock(block)));
    }
    return absl::OkStatus();
  };
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t block_end = (block + 1) * nodes;
    for (int64_t begin = block * nodes; begin < block_end; begin += at_once) {
      const int64_t end = std::min(begin + at_once, block_end);
      for (int64_t step = begin; step < end; ++step) {
        for (const TwoLevelReduction& reduction : reductions) {
          if (block < reduction.blocks()) append(reduction.LocalMessages(step));
        }
      }
      ZEROTH_RETURN_IF_ERROR(exchange(messages));
      messages.clear();
      // The last sums of the previous block have just arrived.
      if (begin == block * nodes && block > 0) ZEROTH_RETURN_IF_ERROR(finish(block - 1));
      for (int64_t step = begin; step < end; ++step) {
        for (const TwoLevelReduction& reduction : reductions) {
          if (block >= reduction.blocks()) continue;
          ZEROTH_RETURN_IF_ERROR(add(reduction.AddLocal(step)));
          append(reduction.CrossMessages(step));
        }
      }
    }
  }
  ZEROTH_RETURN_IF_ERROR(exchange(messages));
  return finish(blocks - 1);
}

TwoLevelGather::TwoLevelGather(const NodeGrid& grid, std::function<BufferView(int)> place)
    : grid_(grid), place_(std::move(place)) {}

std::vector<RankMessage> TwoLevelGather::CrossMessages(int step) const {
  if (step == 0) return {};
  const int to = grid_.RankOf(grid_.NodeAt(step), grid_.local());
  const int from = grid_.RankOf(grid_.NodeAt(-step), grid_.local());
  return {SendTo(to, place_(grid_.rank)), ReceiveFrom(from, place_(from))};
}

std::vector<RankMessage> TwoLevelGather::LocalMessages(int step) const {
  const int node = grid_.NodeAt(-step);
  std::vector<RankMessage> messages;
  for (int turn = 1; turn < grid_.per_node; ++turn) {
    const int to = (grid_.local() + turn) % grid_.per_node;
    const int from = (grid_.local() + grid_.per_node - turn) % grid_.per_node;
    messages.push_back(
        SendTo(grid_.RankOf(grid_.node(), to), place_(grid_.RankOf(node, grid_.local()))));
    messages.push_back(
        ReceiveFrom(grid_.RankOf(grid_.node(), from), place_(grid_.RankOf(node, from))));
  }
  return messages;
}

}  // namespace zeroth
