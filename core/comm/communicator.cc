// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/communicator.h"

#include <algorithm>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::string_view ReduceOpName(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMean:
      return "mean";
    case ReduceOp::kMax:
      return "max";
  }
  return "unknown";
}

absl::Status Communicator::AllGatherAll(absl::Span<const GatherBuffers> gathers, Stream& stream,
                                        absl::string_view label) {
  for (const auto& [send, recv] : gathers) {
    ZEROTH_RETURN_IF_ERROR(AllGather(send, recv, stream, label));
  }
  return absl::OkStatus();
}

absl::Status Communicator::ReduceScatterAll(absl::Span<const ReductionBuffers> reductions,
                                            ReduceOp op, Stream& stream, absl::string_view label) {
  for (const auto& [send, recv, accumulate] : reductions) {
    ZEROTH_RETURN_IF_ERROR(ReduceScatter(send, recv, op, stream, label, accumulate));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::SplitInto(absl::Span<const int> members,
                                                                      int color, bool for_gathers) {
  const auto mine = std::find(members.begin(), members.end(), rank());
  ZEROTH_CHECK(mine != members.end());
  const int key = static_cast<int>(mine - members.begin());
  return for_gathers ? SplitForGathers(color, key) : Split(color, key);
}

}  // namespace zeroth
