// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/split_groups.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace zeroth {

std::vector<std::vector<int>> SplitGroups(absl::Span<const SplitRequest> requests) {
  std::map<int, std::vector<int>> ranks_of_color;
  for (size_t rank = 0; rank < requests.size(); ++rank) {
    if (requests[rank].color < 0) continue;
    ranks_of_color[requests[rank].color].push_back(static_cast<int>(rank));
  }
  std::vector<std::vector<int>> groups;
  for (auto& [color, ranks] : ranks_of_color) {
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
      return requests[static_cast<size_t>(a)].key < requests[static_cast<size_t>(b)].key;
    });
    groups.push_back(std::move(ranks));
  }
  return groups;
}

std::string GroupName(absl::string_view back_end, absl::Span<const int> world_ranks) {
  return absl::StrCat(back_end, " world ranks [", absl::StrJoin(world_ranks, ", "), "]");
}

}  // namespace zeroth
