// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Who joins whom in Communicator::Split: shared by the back ends.

#ifndef ZEROTH_CORE_COMM_SPLIT_GROUPS_H_
#define ZEROTH_CORE_COMM_SPLIT_GROUPS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

struct SplitRequest {
  int color = 0;  // negative: joins no group
  int key = 0;
};

// The new groups by ascending color: ranks of the old group, in the order of the new one.
std::vector<std::vector<int>> SplitGroups(absl::Span<const SplitRequest> requests);

// "nccl world ranks [0, 1]": the group's communicators' name.
std::string GroupName(absl::string_view back_end, absl::Span<const int> world_ranks);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_SPLIT_GROUPS_H_
