// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
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

namespace zeroth::mpi {
namespace {

using Way = Message::Way;

constexpr int64_t kCacheLine = 64;
// Up to this many bytes from all ranks together, one round of messages is faster than two.
constexpr int64_t kSmallAllReduceBytes = int64_t{256} << 10;
// A block of all other ranks together stays in the last-level cache until it is added. The block of
// one rank is large enough that its transfer takes longer than its latency.
constexpr int64_t kBlockBytesOfAll = int64_t{8} << 20;
constexpr int64_t kLeastBlockBytes = int64_t{16} << 10;
constexpr int64_t kMostBlockBytes = int64_t{1} << 20;

using ConstPointers = absl::InlinedVector<const void*, 16>;

Message Send(int peer, const BufferView& view) {
  return {Way::kSend, peer, view.data, ByteSize(view)};
}
Message Receive(int peer, const BufferView& view) {
  return {Way::kReceive, peer, view.data, ByteSize(view)};
}

void Copy(const BufferView& from, const BufferView& to) {
  if (from.count > 0 && from.data != to.data) {
    std::memcpy(to.data, from.data, static_cast<size_t>(ByteSize(from)));
  }
}

// Returns one message to each other rank, send(to), and one from each, receive(from). In each step,
// no two ranks send to the same one.
template <typename Outgoing, typename Arrivals>
std::vector<Message> Exchange(const Channel& channel, Outgoing send, Arrivals receive) {
  const int size = channel.size();
  std::vector<Message> messages;
  for (int step = 1; step < size; ++step) {
    const int to = (channel.rank() + step) % size;
    const int from = (channel.rank() + size - step) % size;
    messages.push_back(Send(to, send(to)));
    messages.push_back(Receive(from, receive(from)));
  }
  return messages;
}

bool IsSmall(const BufferView& buffer, int size) {
  return ByteSize(buffer) * size <= kSmallAllReduceBytes;
}

// The elements in a block of one rank.
int64_t BlockElements(DType dtype, int size) {
  const int64_t share = kBlockBytesOfAll / std::max(1, size - 1);
  const int64_t bytes = std::clamp(share, kLeastBlockBytes, kMostBlockBytes);
  return bytes / kCacheLine * kCacheLine / static_cast<int64_t>(SizeOf(dtype));
}

// Space for two blocks of each other rank: one is added while the next arrives.
size_t BlockScratchBytes(const Pieces& pieces, DType dtype, int size) {
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
  // Elements of block `block` in `rank`'s piece.
  int64_t CountOf(int rank, int64_t block) const {
    return std::clamp(pieces_.Count(rank) - block * block_, int64_t{0}, block_);
  }

  // Where `peer`'s elements for this rank arrive.
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

// An all-gather sends all of a rank's elements to each other one, an all-to-all a piece.
absl::Status ExchangePieces(const Collective& collective, Channel& channel) {
  const auto sent = [&](int to) {
    return collective.op == CollectiveOp::kAllGather
               ? collective.send
               : PieceOf(collective.send, collective.counts.send, to, channel.size());
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
        channel.Move({Receive(absolute(relative - bit), collective.recv)}, collective.call));
  }
  std::vector<Message> messages;
  for (bit /= 2; bit > 0; bit /= 2) {
    if (relative + bit < size) {
      messages.push_back(Send(absolute(relative + bit), collective.recv));
    }
  }
  return channel.Move(std::move(messages), collective.call);
}

absl::Status ReduceScatter(const Collective& collective, Channel& channel, char* scratch) {
  const Pieces pieces = {collective.recv.count, collective.send.count};
  return PieceReduction(collective, collective.send, collective.recv, pieces, channel, scratch)
      .Run();
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
  ZEROTH_RETURN_IF_ERROR(PieceReduction(collective, buffer, own, pieces, channel, scratch).Run());
  return channel.Move(
      Exchange(
          channel, [&](int) { return own; }, [&](int from) { return pieces.Of(buffer, from); }),
      collective.call);
}

}  // namespace

size_t ScratchBytes(const Collective& collective, int size) {
  const BufferView& buffer = collective.recv;
  if (size == 1) return 0;
  switch (collective.op) {
    case CollectiveOp::kReduceScatter:
      return BlockScratchBytes({buffer.count, collective.send.count}, collective.send.dtype, size);
    case CollectiveOp::kAllReduce:
      if (IsSmall(buffer, size)) return static_cast<size_t>(ByteSize(buffer) * (size - 1));
      return BlockScratchBytes(Pieces::OfLines(buffer, size), buffer.dtype, size);
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
    case CollectiveOp::kAllToAll:
      return ExchangePieces(collective, channel);
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
