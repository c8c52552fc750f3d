// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Shared by the back ends: the description of a call that ranks compare, so that the message of a
// mismatch is the same everywhere, the division of buffers into pieces, and checks of arguments.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/comm_stats.h"
#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// The operations that ranks compare besides the collectives of comm_stats.h.
inline constexpr absl::string_view kRegisterMemoryOperation = "register_memory";
inline constexpr absl::string_view kPlayOperation = "play";  // a recording that contains calls

// CollectiveCall::count of an all-to-all with uneven pieces, whose buffers differ between ranks.
inline constexpr int64_t kUnevenCount = -1;

// The fields that must be equal on all ranks of a group for their calls to form one collective. A
// value type.
struct CollectiveCall {
  absl::string_view operation;  // with static storage: "all_gather", "split"
  uint64_t index = 0;           // the number of calls that this rank issued here before
  int64_t count = 0;  // elements of one rank's piece (all_gather, reduce_scatter) or of the buffer
  std::optional<DType> dtype;      // of the sent elements; none if no data moves
  std::optional<ReduceOp> reduce;  // of reductions
  std::optional<int> root;         // of a broadcast, as a rank of the group
  std::string label;

  // "reduce_scatter 'h.3' (call 17, 64 x fp32, mean)"; calls are counted from 1.
  std::string ToString() const;

  friend bool operator==(const CollectiveCall& a, const CollectiveCall& b) = default;
};

// A call with its buffers. An operation on one buffer has it as both `send` and `recv`.
struct Collective {
  CollectiveOp op = CollectiveOp::kBarrier;
  CollectiveCall call;
  BufferView send;
  BufferView recv;
  bool accumulate = false;
  AllToAllCounts counts = {};
};

// Returns the calls alone, for the ranks to compare.
std::vector<CollectiveCall> CallsOf(absl::Span<const Collective> collectives);

// Elements on their way to or from another rank of the group. Does not own them.
struct RankMessage {
  bool is_send = false;
  int peer = 0;
  BufferView data;
};
inline RankMessage SendTo(int peer, const BufferView& data) { return {true, peer, data}; }
inline RankMessage ReceiveFrom(int peer, const BufferView& data) { return {false, peer, data}; }

// Returns the bytes that the view spans.
int64_t ByteSize(const BufferView& view);
// Returns elements [begin, begin + count) of `view`.
BufferView Range(const BufferView& view, int64_t begin, int64_t count);
// Returns elements [piece * count, (piece + 1) * count) of `view`.
BufferView Piece(const BufferView& view, int64_t piece, int64_t count);
// Returns piece `piece` of `view`, which is divided into pieces of `counts` elements, or into
// `size` equal pieces if `counts` is empty.
BufferView PieceOf(const BufferView& view, absl::Span<const int64_t> counts, int piece, int size);

// The division of a buffer into one piece for each rank. The last pieces may be shorter, or empty.
struct Pieces {
  // Divides into whole cache lines, so that two ranks never write to the same line, and so that
  // every piece of an aligned buffer is aligned, too.
  static Pieces OfLines(const BufferView& buffer, int size);

  int64_t Begin(int rank) const { return std::min(rank * piece, count); }
  int64_t Count(int rank) const { return Begin(rank + 1) - Begin(rank); }
  BufferView Of(const BufferView& buffer, int rank) const {
    return Range(buffer, Begin(rank), Count(rank));
  }

  int64_t piece = 0;  // elements of the first piece, which is the longest
  int64_t count = 0;  // elements of all pieces
};

// The back ends' checks of a rank's own arguments, made before any communication: InvalidArgument,
// with both values where two must agree.
absl::Status CheckAllGather(const BufferView& send, const BufferView& recv, int rank, int size);
absl::Status CheckReduceScatter(const BufferView& send, const BufferView& recv, ReduceOp op,
                                bool accumulate, int rank, int size);
absl::Status CheckAllReduce(const BufferView& buffer, ReduceOp op);
absl::Status CheckAllToAll(const BufferView& send, const BufferView& recv, int size,
                           const AllToAllCounts& counts = {});
absl::Status CheckBroadcast(const BufferView& buffer, int root, int size);

}  // namespace zeroth
