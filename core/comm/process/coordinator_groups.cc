// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// CoordinatorWorld's handling of groups: their calls, splits and meetings.

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/process/coordinator_world.h"

namespace zeroth {
namespace {

// An announcement costs one message for each rank of the group, and ranks that run ahead do not
// need it at once, so announcements are batched over this time.
constexpr auto kPutOffTime = std::chrono::milliseconds(50);

}  // namespace

CoordinatorWorld::Group::Group(std::shared_ptr<WorldState> world, uint32_t group_id,
                               std::vector<int> ranks, const std::string& group_name)
    : id(group_id),
      name(std::make_shared<const std::string>(group_name)),
      world_ranks(std::move(ranks)),
      calls{{world, world_ranks, group_name}},
      splits{{world, world_ranks, group_name}},
      meetings{{world, world_ranks, group_name}},
      ahead(world_ranks.size()),
      requests(world_ranks.size()),
      values(world_ranks.size()) {}

void CoordinatorWorld::CreateGroup(std::vector<int> world_ranks) {
  const auto id = static_cast<uint32_t>(groups_.size());
  const std::string name = GroupName(options_.back_end, world_ranks);
  groups_.push_back(std::make_unique<Group>(world_, id, std::move(world_ranks), name));
  ++group_count_;
}

CoordinatorWorld::Group* CoordinatorWorld::Find(uint32_t id, int world_rank, int* rank) {
  Group* const group = GroupOf(id);
  if (group == nullptr) return nullptr;
  const std::optional<int> place = group->calls.ledger.GroupRank(world_rank);
  if (!place.has_value()) return nullptr;
  *rank = *place;
  return group;
}

bool CoordinatorWorld::HandleInGroup(MessageType type, int world_rank, WireReader& reader) {
  const uint32_t id = reader.U32();
  std::vector<absl::string_view> calls;
  bool awaits = false;
  SplitRequest request;
  std::string value;
  uint64_t count = 0;
  if (type == MessageType::kCall) {
    awaits = reader.U8() != 0;
    do {
      calls.push_back(reader.View());
    } while (reader.ok() && !reader.AtEnd());
  } else if (type == MessageType::kSplit) {
    request.color = reader.I32();
    request.key = reader.I32();
  } else if (type == MessageType::kMeet) {
    value = reader.String();
  } else if (type == MessageType::kAwait) {
    count = reader.U64();
  }
  if (!reader.IsComplete()) return false;
  // A rank may wait for its last calls after all have left the group. It was told of them by then.
  if (type == MessageType::kAwait && id < groups_.size() && groups_[id] == nullptr) return true;
  int rank = 0;
  Group* const group = Find(id, world_rank, &rank);
  if (group == nullptr) return false;
  const std::unique_lock<std::mutex> lock(world_->mutex());
  switch (type) {
    case MessageType::kCall: {
      for (const absl::string_view& call : calls) {
        const SharedCall decoded = Decode(*group, rank, call);
        if (decoded == nullptr) return false;
        Call(*group, rank, awaits && &call == &calls.back(), decoded);
      }
      break;
    }
    case MessageType::kSplit:
      Split(*group, rank, request);
      break;
    case MessageType::kMeet:
      Meet(*group, rank, std::move(value));
      break;
    case MessageType::kAwait:
      if (count > group->announced) group->awaited.insert(count);
      AnnounceLater(*group);
      break;
    default:
      Leave(*group, rank);
  }
  return true;
}

SharedCall CoordinatorWorld::Decode(Group& group, int rank, absl::string_view bytes) {
  const auto at = static_cast<size_t>(group.calls.ledger.IssuedLocked(rank) - group.first_posted);
  if (at < group.posted.size() && group.posted[at].bytes == bytes) return group.posted[at].call;
  std::optional<CollectiveCall> call = ReadCall(bytes);
  if (!call.has_value()) return nullptr;
  auto shared = std::make_shared<const CollectiveCall>(*std::move(call));
  if (at == group.posted.size()) group.posted.push_back({std::string(bytes), shared});
  return shared;
}

void CoordinatorWorld::Call(Group& group, int rank, bool awaits, const SharedCall& call) {
  CallLedger& ledger = group.calls.ledger;
  if (!ledger.IssueLocked(rank).ok()) return;
  if (awaits) group.awaited.insert(ledger.IssuedLocked(rank));
  LastCall& last = last_call_[static_cast<size_t>(ledger.world_rank(rank))];
  last.call = call;
  if (last.group_name != group.name) last.group_name = group.name;
  if (ledger.IsWaitingLocked(rank)) {
    group.ahead[static_cast<size_t>(rank)].push_back(call);
    return;
  }
  ArriveAtTurn(group, rank, call);
  AnnounceLater(group);
}

void CoordinatorWorld::ArriveAtTurn(Group& group, int first, const SharedCall& call) {
  if (!Arrive(group.calls, first, call).value_or(false)) return;
  while (group.first_posted < group.calls.ledger.completed()) {
    group.posted.pop_front();
    ++group.first_posted;
  }
  // The call is complete, so the ranks that have posted their next one arrive at it. `first` has
  // not, so that one is not complete yet.
  for (size_t rank = 0; rank < group.ahead.size(); ++rank) {
    std::deque<SharedCall>& ahead = group.ahead[rank];
    if (ahead.empty()) continue;
    if (!Arrive(group.calls, static_cast<int>(rank), ahead.front()).ok()) return;
    ahead.pop_front();
  }
}

void CoordinatorWorld::Split(Group& group, int rank, const SplitRequest& request) {
  group.requests[static_cast<size_t>(rank)] = request;
  if (ArriveOnHost(group.splits, "split", rank)) AssignSeats(group);
}

void CoordinatorWorld::Meet(Group& group, int rank, std::string value) {
  group.values[static_cast<size_t>(rank)] = std::move(value);
  if (!ArriveOnHost(group.meetings, "setting_up", rank)) return;
  for (std::string& part : MeetingAnswer::Messages(group.id, group.values)) {
    SendToGroup(group, std::move(part));
  }
}

void CoordinatorWorld::Leave(Group& group, int rank) {
  for (TimedLedger* timed : group.ledgers()) timed->ledger.LeaveLocked(rank);
  if (group.id == kWorldGroup || !group.calls.ledger.AllLeftLocked()) return;
  Announce(group);
  left_.push_back(std::move(groups_[group.id]));
  --group_count_;
}

absl::StatusOr<bool> CoordinatorWorld::Arrive(TimedLedger& timed, int rank, SharedCall call) {
  const uint64_t before = timed.ledger.completed();
  ZEROTH_RETURN_IF_ERROR(timed.ledger.ArriveLocked(rank, std::move(call)));
  const bool completes = timed.ledger.completed() != before;
  if (completes) {
    timed.since.reset();
  } else if (!timed.since.has_value()) {
    timed.since = Clock::now();
    // Later waits time out later.
    if (!no_timeout_before_.has_value()) no_timeout_before_ = *timed.since + limit_;
  }
  return completes;
}

bool CoordinatorWorld::ArriveOnHost(TimedLedger& timed, absl::string_view operation, int rank) {
  CollectiveCall call;
  call.operation = operation;
  const absl::StatusOr<uint64_t> index = timed.ledger.IssueLocked(rank);
  if (!index.ok()) return false;
  call.index = *index;
  return Arrive(timed, rank, std::make_shared<const CollectiveCall>(std::move(call)))
      .value_or(false);
}

void CoordinatorWorld::AnnounceLater(Group& group) {
  const uint64_t agreed = group.calls.ledger.completed();
  if (agreed == group.announced) return;
  if (!group.awaited.empty() && *group.awaited.begin() <= agreed) {
    if (!std::exchange(group.is_due, true)) due_.push_back(group.id);
  } else if (!std::exchange(group.is_put_off, true)) {
    if (put_off_.empty()) put_off_until_ = Clock::now() + kPutOffTime;
    put_off_.push_back(group.id);
  }
}

void CoordinatorWorld::Announce(Group& group) {
  const uint64_t agreed = group.calls.ledger.completed();
  if (agreed == group.announced) return;
  group.announced = agreed;
  group.awaited.erase(group.awaited.begin(), group.awaited.upper_bound(agreed));
  SendToGroup(group, Message(MessageType::kAgreed).U32(group.id).U64(agreed).bytes());
}

void CoordinatorWorld::AnnounceAll(std::vector<uint32_t>& groups) {
  for (const uint32_t id : std::exchange(groups, {})) {
    Group* const group = GroupOf(id);
    if (group == nullptr) continue;
    (&groups == &due_ ? group->is_due : group->is_put_off) = false;
    Announce(*group);
  }
}

void CoordinatorWorld::AssignSeats(Group& group) {
  std::vector<std::string> seats(group.world_ranks.size(),
                                 Message(MessageType::kSeat).U32(group.id).U32(kNoGroup).bytes());
  for (const std::vector<int>& ranks : SplitGroups(group.requests)) {
    std::vector<int> world_ranks;
    world_ranks.reserve(ranks.size());
    for (int rank : ranks) world_ranks.push_back(group.world_ranks[static_cast<size_t>(rank)]);
    WireWriter members;
    WriteRanks(world_ranks, members);
    const auto id = static_cast<uint32_t>(groups_.size());
    for (size_t i = 0; i < ranks.size(); ++i) {
      WireWriter seat = Message(MessageType::kSeat).U32(group.id).U32(id);
      seat.U32(static_cast<uint32_t>(i));
      seats[static_cast<size_t>(ranks[i])] = absl::StrCat(seat.bytes(), members.bytes());
    }
    CreateGroup(std::move(world_ranks));
  }
  for (size_t rank = 0; rank < seats.size(); ++rank) {
    const auto& connection = connection_of_rank_[static_cast<size_t>(group.world_ranks[rank])];
    if (connection.has_value()) output_.push_back({{*connection}, std::move(seats[rank])});
  }
}

}  // namespace zeroth
