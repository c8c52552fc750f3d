// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which ranks form the new groups in Communicator::Split. Shared by the back ends.

#ifndef ZEROTH_CORE_COMM_SPLIT_GROUPS_H_
#define ZEROTH_CORE_COMM_SPLIT_GROUPS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

struct SplitRequest {
  int color = 0;  // negative: the rank joins no group
  int key = 0;
};

// Returns the new groups by ascending color, each as ranks of the old group in the new group's
// order.
std::vector<std::vector<int>> SplitGroups(absl::Span<const SplitRequest> requests);

// The name of a group's communicators: "nccl world ranks [0, 1]".
std::string GroupName(absl::string_view back_end, absl::Span<const int> world_ranks);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_SPLIT_GROUPS_H_
