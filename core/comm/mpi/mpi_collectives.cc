// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/host_reduce.h"
#include "zeroth/core/comm/mpi/mpi_channel.h"
#include "zeroth/core/comm/two_level.h"

namespace zeroth::mpi {
namespace {

constexpr int64_t kCacheLine = 64;
// Up to this many bytes from all ranks together, one round of messages is faster than two.
constexpr int64_t kSmallBytes = int64_t{256} << 10;
// A block of all other ranks together stays in the last-level cache until it is added. The block of
// one rank is large enough that its transfer takes longer than its latency.
constexpr int64_t kBlockBytesOfAll = int64_t{8} << 20;
constexpr int64_t kLeastBlockBytes = int64_t{16} << 10;
constexpr int64_t kMostBlockBytes = int64_t{1} << 20;

// While a step's elements are added, those of the next step arrive.
constexpr TwoLevelReduction::Limits kLimits = {/*steps=*/2, /*blocks=*/2};

using ConstPointers = absl::InlinedVector<const void*, 16>;

void Copy(const BufferView& from, const BufferView& to) {
  if (from.count > 0 && from.data != to.data) {
    std::memcpy(to.data, from.data, static_cast<size_t>(ByteSize(from)));
  }
}

// Returns one message to each other rank, send(to), and one from each, receive(from). In each step,
// no two ranks send to the same one.
template <typename Outgoing, typename Arrivals>
std::vector<RankMessage> Exchange(const Channel& channel, Outgoing send, Arrivals receive) {
  const int size = channel.size();
  std::vector<RankMessage> messages;
  for (int step = 1; step < size; ++step) {
    const int to = (channel.rank() + step) % size;
    const int from = (channel.rank() + size - step) % size;
    messages.push_back(SendTo(to, send(to)));
    messages.push_back(ReceiveFrom(from, receive(from)));
  }
  return messages;
}

bool IsSmall(const BufferView& buffer, int size) { return ByteSize(buffer) * size <= kSmallBytes; }

// Returns the elements in a block of one rank.
int64_t BlockElements(DType dtype, int size) {
  const int64_t share = kBlockBytesOfAll / std::max(1, size - 1);
  const int64_t bytes = std::clamp(share, kLeastBlockBytes, kMostBlockBytes);
  return bytes / kCacheLine * kCacheLine / static_cast<int64_t>(SizeOf(dtype));
}

// Returns the scratch of a reduction. In one all-to-all it has space for two blocks of each other
// rank: one is added while the next arrives.
size_t BlockScratchBytes(const Pieces& pieces, DType dtype, const NodeGrid& grid) {
  if (grid.has_two_levels()) return TwoLevelReduction::ScratchBytes(grid, pieces, dtype, kLimits);
  const int size = grid.size;
  const int64_t block = std::min(BlockElements(dtype, size), pieces.Count(0));
  return static_cast<size_t>(2 * (size - 1) * block) * SizeOf(dtype);
}

// Reduces this rank's piece of all ranks' `from` into `to`.
class PieceReduction {
 public:
  PieceReduction(const Collective& collective, const BufferView& from, const BufferView& to,
                 const Pieces& pieces, Channel& channel, char* scratch)
      : collective_(collective),
        from_(from),
        to_(to),
        pieces_(pieces),
        channel_(channel),
        scratch_(scratch),
        // The first piece is the longest.
        block_(std::min(BlockElements(from.dtype, channel.size()), pieces.Count(0))) {}

  absl::Status Run() {
    const int64_t blocks = block_ == 0 ? 0 : (pieces_.Count(0) + block_ - 1) / block_;
    std::shared_ptr<Engine::Exchange> next;
    for (int64_t block = 0; block < blocks; ++block) {
      const std::shared_ptr<Engine::Exchange> exchange = block == 0 ? Start(0) : std::move(next);
      if (block + 1 < blocks) next = Start(block + 1);
      ZEROTH_RETURN_IF_ERROR(channel_.Finish(*exchange, collective_.call));
      Reduce(block);
    }
    return absl::OkStatus();
  }

 private:
  // Returns the elements of block `block` in `rank`'s piece.
  int64_t CountOf(int rank, int64_t block) const {
    return std::clamp(pieces_.Count(rank) - block * block_, int64_t{0}, block_);
  }

  // Returns where `peer`'s elements for this rank arrive.
  BufferView Arrivals(int peer, int64_t block) const {
    const int64_t place = peer < channel_.rank() ? peer : peer - 1;
    const int64_t slot = (block % 2) * (channel_.size() - 1) + place;
    return Range({scratch_, 0, from_.dtype}, slot * block_, CountOf(channel_.rank(), block));
  }

  BufferView Outgoing(int peer, int64_t block) const {
    return Range(from_, pieces_.Begin(peer) + block * block_, CountOf(peer, block));
  }

  std::shared_ptr<Engine::Exchange> Start(int64_t block) {
    return channel_.Start(Exchange(
        channel_, [&](int to) { return Outgoing(to, block); },
        [&](int from) { return Arrivals(from, block); }));
  }

  void Reduce(int64_t block) const {
    const int64_t count = CountOf(channel_.rank(), block);
    if (count == 0) return;
    ConstPointers sources;
    for (int rank = 0; rank < channel_.size(); ++rank) {
      sources.push_back(
          (rank == channel_.rank() ? Outgoing(rank, block) : Arrivals(rank, block)).data);
    }
    void* const destination = Range(to_, block * block_, count).data;
    ReduceOnHost(ReductionOf(collective_, sources, absl::MakeConstSpan(&destination, 1), count));
  }

  const Collective& collective_;
  const BufferView from_;
  const BufferView to_;
  const Pieces pieces_;
  Channel& channel_;
  char* const scratch_;
  const int64_t block_;
};

// Runs a reduction in two levels. While a step's elements are added, those of the next step arrive
// from the node's ranks, and earlier sums from other nodes.
absl::Status ReduceInTwoLevels(const TwoLevelReduction& reduction, Channel& channel,
                               const CollectiveCall& call) {
  const int64_t steps = reduction.steps();
  if (steps == 0) return absl::OkStatus();
  std::shared_ptr<Engine::Exchange> next = channel.Start(reduction.LocalMessages(0));
  std::array<std::shared_ptr<Engine::Exchange>, 2> cross;
  const auto finish_cross = [&](int64_t step) {
    const std::shared_ptr<Engine::Exchange> exchange =
        std::move(cross[static_cast<size_t>(step % 2)]);
    return exchange == nullptr ? absl::OkStatus() : channel.Finish(*exchange, call);
  };
  int64_t finished = 0;  // blocks
  for (int64_t step = 0; step < steps; ++step) {
    const std::shared_ptr<Engine::Exchange> local = std::move(next);
    if (step + 1 < steps) next = channel.Start(reduction.LocalMessages(step + 1));
    ZEROTH_RETURN_IF_ERROR(channel.Finish(*local, call));
    ZEROTH_RETURN_IF_ERROR(finish_cross(step));  // of two steps ago
    ReduceOnHost(reduction.AddLocal(step));
    cross[static_cast<size_t>(step % 2)] = channel.Start(reduction.CrossMessages(step));
    // Finish the block before while the network moves this block's first sums: the last step of a
    // block has no messages for the network.
    if (step > 0 && step % channel.grid().nodes() == 0) {
      ReduceOnHost(reduction.FinishBlock(finished++));
    }
  }
  ZEROTH_RETURN_IF_ERROR(finish_cross(steps));
  ReduceOnHost(reduction.FinishBlock(finished));
  return absl::OkStatus();
}

absl::Status ReducePiece(const Collective& collective, const BufferView& from, const BufferView& to,
                         const Pieces& pieces, Channel& channel, char* scratch) {
  if (!channel.grid().has_two_levels()) {
    return PieceReduction(collective, from, to, pieces, channel, scratch).Run();
  }
  return ReduceInTwoLevels(
      TwoLevelReduction(collective, from, to, pieces, channel.grid(), kLimits, scratch), channel,
      collective.call);
}

// All-gathers the pieces: that of rank r arrives at place(r). This rank's piece is there already.
template <typename Place>
absl::Status GatherPieces(Channel& channel, Place place, const CollectiveCall& call) {
  const BufferView own = place(channel.rank());
  if (!channel.grid().has_two_levels() || IsSmall(own, channel.size())) {
    return channel.Move(Exchange(
                            channel, [&](int) { return own; }, place),
                        call);
  }
  const TwoLevelGather gather(channel.grid(), place);
  std::vector<std::shared_ptr<Engine::Exchange>> cross;
  for (int step = 0; step < gather.steps(); ++step) {
    cross.push_back(channel.Start(gather.CrossMessages(step)));
  }
  std::vector<std::shared_ptr<Engine::Exchange>> local;
  for (int step = 0; step < gather.steps(); ++step) {
    ZEROTH_RETURN_IF_ERROR(channel.Finish(*cross[static_cast<size_t>(step)], call));
    local.push_back(channel.Start(gather.LocalMessages(step)));
  }
  for (const auto& exchange : local) ZEROTH_RETURN_IF_ERROR(channel.Finish(*exchange, call));
  return absl::OkStatus();
}

absl::Status AllGather(const Collective& collective, Channel& channel) {
  const auto place = [&](int rank) { return Piece(collective.recv, rank, collective.send.count); };
  Copy(collective.send, place(channel.rank()));
  return GatherPieces(channel, place, collective.call);
}

absl::Status AllToAll(const Collective& collective, Channel& channel) {
  const auto sent = [&](int to) {
    return PieceOf(collective.send, collective.counts.send, to, channel.size());
  };
  const auto received = [&](int from) {
    return PieceOf(collective.recv, collective.counts.recv, from, channel.size());
  };
  Copy(sent(channel.rank()), received(channel.rank()));
  return channel.Move(Exchange(channel, sent, received), collective.call);
}

// Ranks are counted from the root. A rank receives from the rank without its lowest set bit, and
// sends to the ranks with one more bit set below that.
absl::Status Broadcast(const Collective& collective, Channel& channel) {
  const int size = channel.size();
  const int root = *collective.call.root;
  const int relative = (channel.rank() - root + size) % size;
  const auto absolute = [&](int rank) { return (rank + root) % size; };
  int bit = 1;
  while (bit < size && (relative & bit) == 0) bit *= 2;
  if (relative != 0) {
    ZEROTH_RETURN_IF_ERROR(
        channel.Move({ReceiveFrom(absolute(relative - bit), collective.recv)}, collective.call));
  }
  std::vector<RankMessage> messages;
  for (bit /= 2; bit > 0; bit /= 2) {
    if (relative + bit < size) {
      messages.push_back(SendTo(absolute(relative + bit), collective.recv));
    }
  }
  return channel.Move(messages, collective.call);
}

absl::Status ReduceScatter(const Collective& collective, Channel& channel, char* scratch) {
  const Pieces pieces = {collective.recv.count, collective.send.count};
  return ReducePiece(collective, collective.send, collective.recv, pieces, channel, scratch);
}

absl::Status SmallAllReduce(const Collective& collective, Channel& channel, char* scratch) {
  const BufferView& buffer = collective.recv;
  const auto arrivals = [&](int peer) {
    return Piece({scratch, 0, buffer.dtype}, peer < channel.rank() ? peer : peer - 1, buffer.count);
  };
  ZEROTH_RETURN_IF_ERROR(channel.Move(Exchange(
                                          channel, [&](int) { return buffer; }, arrivals),
                                      collective.call));
  ConstPointers sources;
  for (int rank = 0; rank < channel.size(); ++rank) {
    sources.push_back(rank == channel.rank() ? buffer.data : arrivals(rank).data);
  }
  ReduceOnHost(
      ReductionOf(collective, sources, absl::MakeConstSpan(&buffer.data, 1), buffer.count));
  return absl::OkStatus();
}

absl::Status AllReduce(const Collective& collective, Channel& channel, char* scratch) {
  const BufferView& buffer = collective.recv;
  if (IsSmall(buffer, channel.size())) return SmallAllReduce(collective, channel, scratch);
  const Pieces pieces = Pieces::OfLines(buffer, channel.size());
  const BufferView own = pieces.Of(buffer, channel.rank());
  ZEROTH_RETURN_IF_ERROR(ReducePiece(collective, buffer, own, pieces, channel, scratch));
  return GatherPieces(
      channel, [&](int rank) { return pieces.Of(buffer, rank); }, collective.call);
}

}  // namespace

size_t ScratchBytes(const Collective& collective, const NodeGrid& grid) {
  const BufferView& buffer = collective.recv;
  const int size = grid.size;
  if (size == 1) return 0;
  switch (collective.op) {
    case CollectiveOp::kReduceScatter:
      return BlockScratchBytes({buffer.count, collective.send.count}, collective.send.dtype, grid);
    case CollectiveOp::kAllReduce:
      if (IsSmall(buffer, size)) return static_cast<size_t>(ByteSize(buffer) * (size - 1));
      return BlockScratchBytes(Pieces::OfLines(buffer, size), buffer.dtype, grid);
    case CollectiveOp::kAllGather:
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kBarrier:
      break;
  }
  return 0;
}

absl::Status MoveData(const Collective& collective, Channel& channel, char* scratch) {
  if (collective.call.count == 0) return absl::OkStatus();
  switch (collective.op) {
    case CollectiveOp::kAllGather:
      return AllGather(collective, channel);
    case CollectiveOp::kAllToAll:
      return AllToAll(collective, channel);
    case CollectiveOp::kReduceScatter:
      return ReduceScatter(collective, channel, scratch);
    case CollectiveOp::kAllReduce:
      return AllReduce(collective, channel, scratch);
    case CollectiveOp::kBroadcast:
      return Broadcast(collective, channel);
    case CollectiveOp::kBarrier:
      // The agreement on the call is the barrier.
      break;
  }
  return absl::OkStatus();
}

}  // namespace zeroth::mpi
