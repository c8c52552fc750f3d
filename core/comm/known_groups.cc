// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/known_groups.h"

#include <algorithm>

#include "zeroth/core/base/check.h"

namespace zeroth {

absl::StatusOr<std::unique_ptr<Communicator>> SplitInto(Communicator& group,
                                                        absl::Span<const int> members, int color,
                                                        bool for_gathers) {
  const auto mine = std::find(members.begin(), members.end(), group.rank());
  ZEROTH_CHECK(mine != members.end());
  if (auto* const knows = dynamic_cast<KnowsGroups*>(&group)) return knows->SplitKnown(members);
  const int key = static_cast<int>(mine - members.begin());
  return for_gathers ? group.SplitForGathers(color, key) : group.Split(color, key);
}

}  // namespace zeroth
