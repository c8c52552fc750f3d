// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What a rank can check about its own arguments before it talks to anybody: shared by the back
// ends. All return InvalidArgument with both values where two must agree.

#ifndef ZEROTH_CORE_COMM_COLLECTIVE_CHECKS_H_
#define ZEROTH_CORE_COMM_COLLECTIVE_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// Bytes that the view spans.
int64_t ByteSize(const BufferView& view);
// Elements [piece * count, (piece + 1) * count) of `view`.
BufferView Piece(const BufferView& view, int64_t piece, int64_t count);
// Piece `piece` of `view` cut into pieces of `counts`, or, if there are none, into `size` equal
// ones.
BufferView PieceOf(const BufferView& view, absl::Span<const int64_t> counts, int piece, int size);

absl::Status CheckAllGather(const BufferView& send, const BufferView& recv, int rank, int size);
absl::Status CheckReduceScatter(const BufferView& send, const BufferView& recv, ReduceOp op,
                                bool accumulate, int rank, int size);
absl::Status CheckAllReduce(const BufferView& buffer, ReduceOp op);
absl::Status CheckAllToAll(const BufferView& send, const BufferView& recv, int size,
                           const AllToAllCounts& counts = {});
absl::Status CheckBroadcast(const BufferView& buffer, int root, int size);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_COLLECTIVE_CHECKS_H_
