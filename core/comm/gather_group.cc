// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/gather_group.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status AllGatherAll(Communicator& group, absl::Span<const GatherBuffers> gathers,
                          Stream& stream, absl::string_view label) {
  auto* const together = dynamic_cast<GathersTogether*>(&group);
  if (together != nullptr && gathers.size() > 1) {
    return together->AllGatherTogether(gathers, stream, label);
  }
  for (const GatherBuffers& one : gathers) {
    ZEROTH_RETURN_IF_ERROR(group.AllGather(one.send, one.recv, stream, label));
  }
  return absl::OkStatus();
}

}  // namespace zeroth
