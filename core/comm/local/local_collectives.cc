// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/local/local_collectives.h"

#include <algorithm>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/collective_checks.h"
#include "zeroth/core/comm/host_reduce.h"

namespace zeroth {
namespace {

constexpr int64_t kCacheLine = 64;

using Pointers = absl::InlinedVector<void*, 16>;
using ConstPointers = absl::InlinedVector<const void*, 16>;

absl::Status CopyElements(const BufferView& from, const BufferView& to, LocalMover& mover) {
  if (from.count == 0 || from.data == to.data) return absl::OkStatus();
  return mover.Copy(to.data, from.data, static_cast<size_t>(ByteSize(from)));
}

}  // namespace

absl::Status AllGatherShare(int rank, absl::Span<const LocalBuffers> ranks, LocalMover& mover) {
  const int size = static_cast<int>(ranks.size());
  const LocalBuffers& own = ranks[static_cast<size_t>(rank)];
  // Each rank begins at another peer, so that they do not all read the same memory at once.
  for (int step = 0; step < size; ++step) {
    const int peer = (rank + step) % size;
    const BufferView& piece = ranks[static_cast<size_t>(peer)].send;
    ZEROTH_RETURN_IF_ERROR(CopyElements(piece, Piece(own.recv, peer, piece.count), mover));
  }
  return absl::OkStatus();
}

absl::Status ReduceScatterShare(int rank, absl::Span<const LocalBuffers> ranks, ReduceOp op,
                                LocalMover& mover) {
  const LocalBuffers& own = ranks[static_cast<size_t>(rank)];
  ConstPointers sources;
  for (const LocalBuffers& peer : ranks) {
    sources.push_back(Piece(peer.send, rank, own.recv.count).data);
  }
  void* const destination = own.recv.data;
  HostReduction reduction;
  reduction.sources = sources;
  reduction.destinations = absl::MakeConstSpan(&destination, 1);
  reduction.count = own.recv.count;
  reduction.dtype = own.send.dtype;
  reduction.result_dtype = own.recv.dtype;
  reduction.op = op;
  reduction.accumulate = own.accumulate;
  return mover.Reduce(reduction);
}

absl::Status AllReduceShare(int rank, absl::Span<const LocalBuffers> ranks, ReduceOp op,
                            LocalMover& mover) {
  const auto size = static_cast<int64_t>(ranks.size());
  const BufferView& own = ranks[static_cast<size_t>(rank)].recv;
  const auto element_bytes = static_cast<int64_t>(SizeOf(own.dtype));
  // Whole cache lines, so that two ranks do not write to one.
  const int64_t line = kCacheLine / element_bytes;
  const int64_t lines = (own.count + line - 1) / line;
  const int64_t piece = (lines + size - 1) / size * line;
  const int64_t begin = std::min(rank * piece, own.count);
  const int64_t count = std::min(piece, own.count - begin);
  if (count == 0) return absl::OkStatus();

  // This rank's copy first among the destinations: it is the one that is written while the block is
  // computed.
  Pointers destinations;
  ConstPointers sources;
  for (int64_t step = 0; step < size; ++step) {
    const auto peer = static_cast<size_t>((rank + step) % size);
    destinations.push_back(static_cast<char*>(ranks[peer].recv.data) + begin * element_bytes);
    sources.push_back(static_cast<const char*>(ranks[static_cast<size_t>(step)].recv.data) +
                      begin * element_bytes);
  }
  HostReduction reduction;
  reduction.sources = sources;
  reduction.destinations = destinations;
  reduction.count = count;
  reduction.dtype = own.dtype;
  reduction.result_dtype = own.dtype;
  reduction.op = op;
  return mover.Reduce(reduction);
}

absl::Status AllToAllShare(int rank, absl::Span<const LocalBuffers> ranks, LocalMover& mover) {
  const int size = static_cast<int>(ranks.size());
  const LocalBuffers& own = ranks[static_cast<size_t>(rank)];
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

absl::Status BroadcastShare(int rank, absl::Span<const LocalBuffers> ranks, int root,
                            LocalMover& mover) {
  return CopyElements(ranks[static_cast<size_t>(root)].send, ranks[static_cast<size_t>(rank)].recv,
                      mover);
}

}  // namespace zeroth
