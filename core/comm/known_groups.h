// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_COMM_KNOWN_GROUPS_H_
#define ZEROTH_CORE_COMM_KNOWN_GROUPS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// What a communicator also is that stands for one rank alone: it cannot ask the others who joins a
// group, and has to be told.
class KnowsGroups {
 public:
  virtual ~KnowsGroups() = default;
  // `members`: ranks of this group, in the order of the new one, this rank among them.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> SplitKnown(
      absl::Span<const int> members) = 0;
};

// Communicator::Split, or SplitForGathers, by a caller that knows the members of each new group:
// those of one color have the same. Collective as these are.
absl::StatusOr<std::unique_ptr<Communicator>> SplitInto(Communicator& group,
                                                        absl::Span<const int> members, int color,
                                                        bool for_gathers);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_KNOWN_GROUPS_H_
