// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/local/local_mover.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"

#include "zeroth/core/base/registry.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/collective.h"

namespace zeroth {
namespace {

class MoverOnHost final : public LocalMover {
 public:
  absl::Status Copy(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status Reduce(const HostReduction& reduction) override {
    ReduceOnHost(reduction);
    return absl::OkStatus();
  }
};

using Movers = Registry<LocalMoverRegistration, LocalMoverRegistration::Factory>;

using Pointers = absl::InlinedVector<void*, 16>;
using ConstPointers = absl::InlinedVector<const void*, 16>;

absl::Status CopyElements(const BufferView& from, const BufferView& to, LocalMover& mover) {
  if (from.count == 0 || from.data == to.data) return absl::OkStatus();
  return mover.Copy(to.data, from.data, static_cast<size_t>(ByteSize(from)));
}

// Reduces piece `rank` of all ranks' send into this rank's recv.
absl::Status ReduceScatter(const Collective& own, int rank, absl::Span<const LocalBuffers> ranks,
                           LocalMover& mover) {
  ConstPointers sources;
  for (const LocalBuffers& peer : ranks) {
    sources.push_back(Piece(peer.send, rank, own.recv.count).data);
  }
  return mover.Reduce(
      ReductionOf(own, sources, absl::MakeConstSpan(&own.recv.data, 1), own.recv.count));
}

// Reduces piece `rank` of all ranks' recv, and writes the result into all of them. Only this rank
// touches that piece, so no second pass has to distribute results.
absl::Status AllReduce(const Collective& own, int rank, absl::Span<const LocalBuffers> ranks,
                       LocalMover& mover) {
  const int size = static_cast<int>(ranks.size());
  const Pieces pieces = Pieces::OfLines(own.recv, size);
  const int64_t count = pieces.Count(rank);
  if (count == 0) return absl::OkStatus();
  // This rank's buffer is the first destination: the one that is written while a block is computed.
  Pointers destinations;
  ConstPointers sources;
  for (int step = 0; step < size; ++step) {
    const auto peer = static_cast<size_t>((rank + step) % size);
    destinations.push_back(pieces.Of(ranks[peer].recv, rank).data);
    sources.push_back(pieces.Of(ranks[static_cast<size_t>(step)].recv, rank).data);
  }
  return mover.Reduce(ReductionOf(own, sources, destinations, count));
}

// Copies into this rank's recv what each rank sends to it: in an all-gather all of the rank's
// elements, in an all-to-all one piece.
absl::Status CopyPieces(const Collective& own, int rank, absl::Span<const LocalBuffers> ranks,
                        LocalMover& mover) {
  const int size = static_cast<int>(ranks.size());
  // Each rank starts with another peer, so that they do not all read the same memory at once.
  for (int step = 0; step < size; ++step) {
    const int peer = (rank + step) % size;
    const LocalBuffers& theirs = ranks[static_cast<size_t>(peer)];
    const BufferView from = own.op == CollectiveOp::kAllGather
                                ? theirs.send
                                : PieceOf(theirs.send, theirs.counts.send, rank, size);
    const BufferView to = PieceOf(own.recv, own.counts.recv, peer, size);
    if (from.count != to.count) {
      return InvalidArgument("all-to-all: rank ", peer, " of the group sends ", from.count,
                             " elements to rank ", rank, ", which expects ", to.count);
    }
    ZEROTH_RETURN_IF_ERROR(CopyElements(from, to, mover));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CopyRankPieces(const Collective& collective, int rank,
                            absl::Span<const LocalBuffers> ranks, LocalMover& mover) {
  switch (collective.op) {
    case CollectiveOp::kAllGather:
    case CollectiveOp::kAllToAll:
      return CopyPieces(collective, rank, ranks, mover);
    case CollectiveOp::kReduceScatter:
      return ReduceScatter(collective, rank, ranks, mover);
    case CollectiveOp::kAllReduce:
      return AllReduce(collective, rank, ranks, mover);
    case CollectiveOp::kBroadcast:  // copies nothing on the root
      return CopyElements(ranks[static_cast<size_t>(*collective.call.root)].send, collective.recv,
                          mover);
    case CollectiveOp::kBarrier:
      break;
  }
  return absl::OkStatus();
}

LocalMover& HostMover() {
  static auto* mover = new MoverOnHost;
  return *mover;
}

LocalMoverRegistration::LocalMoverRegistration(absl::string_view device_type, Factory factory) {
  Movers::Global().Add(device_type, std::move(factory));
}

absl::StatusOr<std::unique_ptr<LocalMover>> NewLocalMover(Stream& stream) {
  const absl::string_view type = stream.device().type();
  if (const auto factory = Movers::Global().Find(type)) return (*factory)(stream);
  return Unimplemented("the local back end cannot move memory of device type '", type,
                       "'; link //core/comm:all_backends, built for that device");
}

}  // namespace zeroth
