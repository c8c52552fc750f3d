// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One call of a collective as ranks compare it: shared by the back ends, so that a mismatch reads
// the same everywhere.

#ifndef ZEROTH_CORE_COMM_COLLECTIVE_CALL_H_
#define ZEROTH_CORE_COMM_COLLECTIVE_CALL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// What ranks make together besides the collectives of comm_stats.h, as CollectiveCall::operation.
inline constexpr absl::string_view kRegisterMemoryOperation = "register_memory";
inline constexpr absl::string_view kPlayOperation = "play";  // of a recording with calls in it

// CollectiveCall::count of an all-to-all whose pieces differ, and with them ranks' buffers.
inline constexpr int64_t kUnevenCount = -1;

// What must be the same on all ranks of a group for their calls to be one collective. A value type.
struct CollectiveCall {
  absl::string_view operation;  // with static storage: "all_gather", "split"
  uint64_t index = 0;           // how many calls this rank has issued on the communicator before
  int64_t count = 0;  // all_gather, reduce_scatter: of one rank's piece; otherwise of the buffer
  std::optional<DType> dtype;      // of what ranks send; none where no data moves
  std::optional<ReduceOp> reduce;  // of reductions
  std::optional<int> root;         // of a broadcast, as a rank of the group
  std::string label;

  // "reduce_scatter 'h.3' (call 17, 64 x fp32, mean)"; calls are counted from 1.
  std::string ToString() const;

  friend bool operator==(const CollectiveCall& a, const CollectiveCall& b);
  friend bool operator!=(const CollectiveCall& a, const CollectiveCall& b) { return !(a == b); }
};

// A call with its buffers. Operations on one buffer have it in both places.
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
