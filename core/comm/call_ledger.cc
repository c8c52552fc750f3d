// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/call_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "zeroth/core/comm/ranks_text.h"

namespace zeroth {

CallLedger::CallLedger(std::shared_ptr<WorldState> world, std::vector<int> world_ranks,
                       std::string name)
    : world_(std::move(world)),
      world_ranks_(std::move(world_ranks)),
      name_(std::move(name)),
      members_(world_ranks_.size()) {
  place_of_world_rank_.reserve(world_ranks_.size());
  for (int rank = 0; rank < size(); ++rank) {
    place_of_world_rank_.emplace(world_rank(rank), rank);
    if (world_->HasReturnedLocked(world_rank(rank))) calls_before_departure_ = 0;
  }
  world_->RegisterLocked(this);
}

CallLedger::~CallLedger() { world_->Unregister(this); }

absl::StatusOr<uint64_t> CallLedger::IssueLocked(int rank) {
  if (absl::Status broken = world_->StatusLocked(); !broken.ok()) return broken;
  return members_[static_cast<size_t>(rank)].issued++;
}

absl::Status CallLedger::ArriveLocked(int rank, const CollectiveCall& call) {
  if (present_ > 0) {
    const SharedCall& other = members_[static_cast<size_t>(first_to_arrive_)].last_call;
    if (call == *other) return ArriveLocked(rank, other);
  }
  return ArriveLocked(rank, std::make_shared<const CollectiveCall>(call));
}

absl::Status CallLedger::ArriveLocked(int rank, SharedCall call) {
  if (absl::Status broken = world_->StatusLocked(); !broken.ok()) return broken;
  if (absl::Status match = CheckMatchLocked(rank, *call); !match.ok()) {
    world_->BreakLocked(match, world_rank(rank));
    return match;
  }
  Member& member = members_[static_cast<size_t>(rank)];
  member.last_call = std::move(call);
  const uint64_t target = ++member.arrived;
  if (present_ == 0) first_to_arrive_ = rank;
  if (++present_ == size()) {
    present_ = 0;
    completed_.store(target, std::memory_order_release);
    return absl::OkStatus();
  }
  if (const int departed = FindDepartedLocked(); departed >= 0) {
    world_->BreakLocked(absl::FailedPreconditionError(DescribeDepartureLocked(departed, rank)),
                        world_rank(departed), /*symptom=*/true);
    return world_->StatusLocked();
  }
  return absl::OkStatus();
}

void CallLedger::LeaveLocked(int rank) {
  Member& member = members_[static_cast<size_t>(rank)];
  if (!member.left) ++left_;
  member.left = true;
  const std::string wait = DepartMemberLocked(rank);
  if (wait.empty()) return;
  world_->BreakLocked(absl::FailedPreconditionError(wait), world_rank(rank), /*symptom=*/true);
}

std::string CallLedger::RankName(int rank) const { return absl::StrCat("rank ", world_rank(rank)); }

absl::Status CallLedger::CheckMatchLocked(int rank, const CollectiveCall& call) const {
  if (present_ == 0) return absl::OkStatus();
  const CollectiveCall& other = *members_[static_cast<size_t>(first_to_arrive_)].last_call;
  if (&call == &other || call == other) return absl::OkStatus();
  std::string mine = absl::StrCat(RankName(rank), " called ", call.ToString());
  std::string theirs = absl::StrCat(RankName(first_to_arrive_), " called ", other.ToString());
  if (first_to_arrive_ < rank) std::swap(mine, theirs);
  return absl::FailedPreconditionError(
      absl::StrCat("collectives do not match on ", name_, ": ", mine, ", ", theirs,
                   "; all ranks must make the same calls in the same order"));
}

int CallLedger::FindDepartedLocked() const {
  if (calls_before_departure_ > completed()) return -1;
  for (int rank = 0; rank < size(); ++rank) {
    const Member& member = members_[static_cast<size_t>(rank)];
    const bool departed = member.left || world_->HasReturnedLocked(world_rank(rank));
    if (departed && member.issued <= completed()) return rank;
  }
  return -1;
}

std::string CallLedger::DescribeDepartureLocked(int departed, int waiting) const {
  const Member& gone = members_[static_cast<size_t>(departed)];
  const bool returned = world_->HasReturnedLocked(world_rank(departed));
  return absl::StrCat(
      RankName(departed), returned ? " has returned" : " has destroyed its communicator",
      gone.arrived == 0
          ? " without a call"
          : absl::StrCat(" after its last operation, ", gone.last_call->ToString(), ","),
      " on ", name_, ", while ", RankName(waiting), " waits for it in ",
      members_[static_cast<size_t>(waiting)].last_call->ToString());
}

std::optional<int> CallLedger::GroupRank(int world_rank) const {
  const auto found = place_of_world_rank_.find(world_rank);
  if (found == place_of_world_rank_.end()) return std::nullopt;
  return found->second;
}

std::string CallLedger::DepartLocked(int world_rank) {
  const std::optional<int> rank = GroupRank(world_rank);
  return rank.has_value() ? DepartMemberLocked(*rank) : "";
}

std::string CallLedger::DepartMemberLocked(int rank) {
  const uint64_t issued = IssuedLocked(rank);
  calls_before_departure_ = std::min(calls_before_departure_, issued);
  if (present_ == 0 || issued > completed()) return "";
  for (int other = 0; other < size(); ++other) {
    if (IsWaitingLocked(other)) return DescribeDepartureLocked(rank, other);
  }
  return "";
}

std::string CallLedger::DescribeWaitOfLocked(int world_rank) const {
  const std::optional<int> rank = GroupRank(world_rank);
  if (!rank.has_value() || !IsWaitingLocked(*rank)) return "";
  return absl::StrCat(members_[static_cast<size_t>(*rank)].last_call->ToString(), " on ", name_);
}

std::string CallLedger::DescribeMemberLocked(int rank) const {
  const Member& member = members_[static_cast<size_t>(rank)];
  if (IsWaiting(member)) return absl::StrCat("waiting in ", member.last_call->ToString());
  std::string text = member.arrived == 0
                         ? "no call yet"
                         : absl::StrCat("last completed ", member.last_call->ToString());
  if (member.issued > member.arrived) {
    absl::StrAppend(&text, ", has enqueued ", member.issued - member.arrived,
                    " more that its stream has not reached");
  }
  const std::string elsewhere = world_->DescribeWaitElsewhereLocked(world_rank(rank), this);
  if (!elsewhere.empty()) absl::StrAppend(&text, ", waiting in ", elsewhere);
  return text;
}

void CallLedger::TimeOutLocked(int rank, absl::string_view more) {
  std::vector<int> missing;
  // Each state with its ranks, ordered by the lowest rank. In a large world most ranks share one.
  std::vector<std::pair<std::string, std::vector<int>>> states;
  std::unordered_map<std::string, size_t> place_of_state;
  for (int r = 0; r < size(); ++r) {
    if (!IsWaitingLocked(r)) missing.push_back(world_rank(r));
    std::string state = DescribeMemberLocked(r);
    const auto [place, is_new] = place_of_state.emplace(state, states.size());
    if (is_new) states.push_back({std::move(state), {}});
    states[place->second].second.push_back(world_rank(r));
  }
  const auto add_state = [](std::string* text, const auto& state) {
    absl::StrAppend(text, RanksText(state.second), ": ", state.first);
  };
  const CollectiveCall& call = *members_[static_cast<size_t>(rank)].last_call;
  world_->BreakLocked(absl::DeadlineExceededError(absl::StrCat(
                          "timeout after ", absl::FormatDuration(world_->timeout()), " in ",
                          call.ToString(), " on ", name_, ": missing ", RanksText(missing), " (",
                          absl::StrJoin(states, "; ", add_state), ")", more)),
                      world_rank(rank));
}

}  // namespace zeroth
