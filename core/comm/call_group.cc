// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/call_group.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status AllGatherAll(Communicator& group, absl::Span<const GatherBuffers> gathers,
                          Stream& stream, absl::string_view label) {
  auto* const together = dynamic_cast<CallsTogether*>(&group);
  if (together != nullptr && gathers.size() > 1) {
    return together->AllGatherTogether(gathers, stream, label);
  }
  for (const GatherBuffers& one : gathers) {
    ZEROTH_RETURN_IF_ERROR(group.AllGather(one.send, one.recv, stream, label));
  }
  return absl::OkStatus();
}

absl::Status ReduceScatterAll(Communicator& group, absl::Span<const ReductionBuffers> reductions,
                              ReduceOp op, Stream& stream, absl::string_view label) {
  auto* const together = dynamic_cast<CallsTogether*>(&group);
  if (together != nullptr && reductions.size() > 1) {
    return together->ReduceScatterTogether(reductions, op, stream, label);
  }
  for (const ReductionBuffers& one : reductions) {
    ZEROTH_RETURN_IF_ERROR(
        group.ReduceScatter(one.send, one.recv, op, stream, label, one.accumulate));
  }
  return absl::OkStatus();
}

}  // namespace zeroth
