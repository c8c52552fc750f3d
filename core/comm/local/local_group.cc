// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/local/local_group.h"

#include <mutex>
#include <numeric>
#include <utility>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

std::shared_ptr<LocalGroup> LocalGroup::CreateWorldGroup(std::shared_ptr<WorldState> world) {
  std::vector<int> ranks(static_cast<size_t>(world->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::lock_guard<std::mutex> lock(world->mutex());
  return std::make_shared<LocalGroup>(world, std::move(ranks));
}

LocalGroup::LocalGroup(std::shared_ptr<WorldState> world, std::vector<int> world_ranks)
    : world_(std::move(world)),
      calls_(world_, world_ranks, GroupName("local", world_ranks)),
      share_done_(world_ranks.size()),
      splits_(world_, world_ranks, calls_.name()),
      requests_(world_ranks.size()),
      seats_(world_ranks.size()) {}

absl::StatusOr<LocalGroup::Seat> LocalGroup::Split(int rank, int color, int key) {
  CollectiveCall call;
  call.operation = "split";
  ZEROTH_ASSIGN_OR_RETURN(call.index, splits_.Issue(rank));
  // Safe without the mutex: others read it only after all ranks have arrived, and before the next
  // split.
  requests_[static_cast<size_t>(rank)] = {color, key};
  ZEROTH_RETURN_IF_ERROR(splits_.Arrive(rank, call, {}, [this] { AssignSeatsLocked(); }));
  Seat seat = std::exchange(seats_[static_cast<size_t>(rank)], {});
  splits_.Finish(rank, /*wait_for_all=*/false);
  return seat;
}

void LocalGroup::AssignSeatsLocked() {
  for (const std::vector<int>& ranks : SplitGroups(requests_)) {
    std::vector<int> world_ranks;
    for (int rank : ranks) world_ranks.push_back(world_rank(rank));
    const auto group = std::make_shared<LocalGroup>(world_, std::move(world_ranks));
    for (size_t i = 0; i < ranks.size(); ++i) {
      seats_[static_cast<size_t>(ranks[i])] = {group, static_cast<int>(i)};
    }
  }
}

void LocalGroup::Leave(int rank) {
  calls_.Leave(rank);
  splits_.Leave(rank);
}

}  // namespace zeroth
