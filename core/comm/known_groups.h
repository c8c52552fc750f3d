// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_COMM_KNOWN_GROUPS_H_
#define ZEROTH_CORE_COMM_KNOWN_GROUPS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// A communicator that stands for one rank alone implements this, too. It cannot ask other ranks
// which of them join a group, so the caller of a split tells it.
class KnowsGroups {
 public:
  virtual ~KnowsGroups() = default;
  // `members` are the ranks of this group that form the new one, in its order. This rank is one.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> SplitKnown(
      absl::Span<const int> members) = 0;
};

// As Communicator::Split, or SplitForGathers, for a caller that knows the members of this rank's
// new group. Ranks of one color pass the same members. Collective.
absl::StatusOr<std::unique_ptr<Communicator>> SplitInto(Communicator& group,
                                                        absl::Span<const int> members, int color,
                                                        bool for_gathers);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_KNOWN_GROUPS_H_
