// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The back ends' checks of a rank's own arguments, made before any communication, and the division
// of buffers into pieces. A check returns InvalidArgument, with both values where two must agree.

#ifndef ZEROTH_CORE_COMM_COLLECTIVE_CHECKS_H_
#define ZEROTH_CORE_COMM_COLLECTIVE_CHECKS_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// Bytes that the view spans.
int64_t ByteSize(const BufferView& view);
// Elements [begin, begin + count) of `view`.
BufferView Range(const BufferView& view, int64_t begin, int64_t count);
// Elements [piece * count, (piece + 1) * count) of `view`.
BufferView Piece(const BufferView& view, int64_t piece, int64_t count);
// Piece `piece` of `view`, which is divided into pieces of `counts` elements, or into `size` equal
// pieces if `counts` is empty.
BufferView PieceOf(const BufferView& view, absl::Span<const int64_t> counts, int piece, int size);

// The division of a buffer into one piece for each rank. The last pieces may be shorter, or empty.
struct Pieces {
  // Pieces of whole cache lines, so that two ranks never write to the same line.
  static Pieces OfLines(const BufferView& buffer, int size);

  int64_t Begin(int rank) const { return std::min(rank * piece, count); }
  int64_t Count(int rank) const { return Begin(rank + 1) - Begin(rank); }
  BufferView Of(const BufferView& buffer, int rank) const {
    return Range(buffer, Begin(rank), Count(rank));
  }

  int64_t piece = 0;  // elements of the first piece, which is the longest
  int64_t count = 0;  // elements of all pieces
};

absl::Status CheckAllGather(const BufferView& send, const BufferView& recv, int rank, int size);
absl::Status CheckReduceScatter(const BufferView& send, const BufferView& recv, ReduceOp op,
                                bool accumulate, int rank, int size);
absl::Status CheckAllReduce(const BufferView& buffer, ReduceOp op);
absl::Status CheckAllToAll(const BufferView& send, const BufferView& recv, int size,
                           const AllToAllCounts& counts = {});
absl::Status CheckBroadcast(const BufferView& buffer, int root, int size);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_COLLECTIVE_CHECKS_H_
