// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One call of a collective, as ranks compare it. The back ends share it, so that the message of a
// mismatch is the same everywhere.

#ifndef ZEROTH_CORE_COMM_COLLECTIVE_CALL_H_
#define ZEROTH_CORE_COMM_COLLECTIVE_CALL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// The operations that ranks compare besides the collectives of comm_stats.h.
inline constexpr absl::string_view kRegisterMemoryOperation = "register_memory";
inline constexpr absl::string_view kPlayOperation = "play";  // a recording that contains calls

// CollectiveCall::count of an all-to-all with uneven pieces, whose buffers differ between ranks.
inline constexpr int64_t kUnevenCount = -1;

// What must be equal on all ranks of a group for their calls to form one collective. A value type.
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

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_COLLECTIVE_CALL_H_
