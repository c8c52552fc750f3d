// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/local/local_collectives.h"

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/collective_checks.h"
#include "zeroth/core/comm/host_reduce.h"

namespace zeroth {
namespace {

using Pointers = absl::InlinedVector<void*, 16>;
using ConstPointers = absl::InlinedVector<const void*, 16>;

absl::Status CopyElements(const BufferView& from, const BufferView& to, LocalMover& mover) {
  if (from.count == 0 || from.data == to.data) return absl::OkStatus();
  return mover.Copy(to.data, from.data, static_cast<size_t>(ByteSize(from)));
}

// Copies every rank's send into its place in this rank's recv.
absl::Status AllGather(const Collective& own, int rank, absl::Span<const LocalBuffers> ranks,
                       LocalMover& mover) {
  const int size = static_cast<int>(ranks.size());
  // Each rank begins at another peer, so that they do not all read the same memory at once.
  for (int step = 0; step < size; ++step) {
    const int peer = (rank + step) % size;
    const BufferView& piece = ranks[static_cast<size_t>(peer)].send;
    ZEROTH_RETURN_IF_ERROR(CopyElements(piece, Piece(own.recv, peer, piece.count), mover));
  }
  return absl::OkStatus();
}

// Reduces piece `rank` of everybody's send into this rank's recv.
absl::Status ReduceScatter(const Collective& own, int rank, absl::Span<const LocalBuffers> ranks,
                           LocalMover& mover) {
  ConstPointers sources;
  for (const LocalBuffers& peer : ranks) {
    sources.push_back(Piece(peer.send, rank, own.recv.count).data);
  }
  return mover.Reduce(
      ReductionOf(own, sources, absl::MakeConstSpan(&own.recv.data, 1), own.recv.count));
}

// Reduces one piece of everybody's recv in place and writes the result into all of them: nobody but
// this rank touches that piece, so no second pass is needed to hand results around.
absl::Status AllReduce(const Collective& own, int rank, absl::Span<const LocalBuffers> ranks,
                       LocalMover& mover) {
  const int size = static_cast<int>(ranks.size());
  const Pieces pieces = Pieces::OfLines(own.recv, size);
  const int64_t count = pieces.Count(rank);
  if (count == 0) return absl::OkStatus();
  // This rank's copy first among the destinations: it is the one that is written while the block is
  // computed.
  Pointers destinations;
  ConstPointers sources;
  for (int step = 0; step < size; ++step) {
    const auto peer = static_cast<size_t>((rank + step) % size);
    destinations.push_back(pieces.Of(ranks[peer].recv, rank).data);
    sources.push_back(pieces.Of(ranks[static_cast<size_t>(step)].recv, rank).data);
  }
  return mover.Reduce(ReductionOf(own, sources, destinations, count));
}

absl::Status AllToAll(const Collective& own, int rank, absl::Span<const LocalBuffers> ranks,
                      LocalMover& mover) {
  const int size = static_cast<int>(ranks.size());
  for (int step = 0; step < size; ++step) {
    const int peer = (rank + step) % size;
    const LocalBuffers& theirs = ranks[static_cast<size_t>(peer)];
    const BufferView from = PieceOf(theirs.send, theirs.counts.send, rank, size);
    const BufferView to = PieceOf(own.recv, own.counts.recv, peer, size);
    if (from.count != to.count) {
      return absl::InvalidArgumentError(
          absl::StrCat("all-to-all: rank ", peer, " of the group sends ", from.count,
                       " elements to rank ", rank, ", which expects ", to.count));
    }
    ZEROTH_RETURN_IF_ERROR(CopyElements(from, to, mover));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MoveShare(const Collective& collective, int rank, absl::Span<const LocalBuffers> ranks,
                       LocalMover& mover) {
  switch (collective.op) {
    case CollectiveOp::kAllGather:
      return AllGather(collective, rank, ranks, mover);
    case CollectiveOp::kReduceScatter:
      return ReduceScatter(collective, rank, ranks, mover);
    case CollectiveOp::kAllReduce:
      return AllReduce(collective, rank, ranks, mover);
    case CollectiveOp::kAllToAll:
      return AllToAll(collective, rank, ranks, mover);
    case CollectiveOp::kBroadcast:  // nothing to do for the root
      return CopyElements(ranks[static_cast<size_t>(*collective.call.root)].send, collective.recv,
                          mover);
    case CollectiveOp::kBarrier:
      break;
  }
  return absl::OkStatus();
}

}  // namespace zeroth
