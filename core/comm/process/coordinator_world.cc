// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/coordinator_world.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <numeric>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Ranks return soon after they learn that the world has broken. The others wait no longer than this
// for a rank that hangs.
constexpr auto kGrace = std::chrono::seconds(30);

}  // namespace

CoordinatorWorld::Group::Group(std::shared_ptr<WorldState> world, uint32_t group_id,
                               std::vector<int> ranks, const std::string& name)
    : id(group_id),
      world_ranks(std::move(ranks)),
      calls{{world, world_ranks, name}},
      splits{{world, world_ranks, name}},
      meetings{{world, world_ranks, name}},
      ahead(world_ranks.size()),
      requests(world_ranks.size()),
      values(world_ranks.size()) {}

CoordinatorWorld::CoordinatorWorld(const Coordinator::Options& options, int port)
    : options_(options),
      port_(port),
      limit_(OnClock(options.timeout)),
      start_(Clock::now()),
      world_(std::make_shared<WorldState>(options.world_size, options.timeout)),
      connection_of_rank_(static_cast<size_t>(options.world_size)),
      last_call_(static_cast<size_t>(options.world_size)) {
  std::vector<int> all(static_cast<size_t>(options.world_size));
  std::iota(all.begin(), all.end(), 0);
  std::lock_guard<std::mutex> lock(world_->mutex());
  CreateGroup(std::move(all));
}

void CoordinatorWorld::CreateGroup(std::vector<int> world_ranks) {
  const uint32_t id = next_group_++;
  const std::string name = GroupName(options_.back_end, world_ranks);
  groups_.emplace(id, std::make_unique<Group>(world_, id, std::move(world_ranks), name));
}

CoordinatorWorld::Group* CoordinatorWorld::Find(uint32_t id, int world_rank, int* rank) {
  const auto found = groups_.find(id);
  if (found == groups_.end()) return nullptr;
  const std::optional<int> place = found->second->calls.ledger.GroupRank(world_rank);
  if (!place.has_value()) return nullptr;
  *rank = *place;
  return found->second.get();
}

std::optional<int> CoordinatorWorld::RankOf(size_t connection) const {
  for (size_t rank = 0; rank < connection_of_rank_.size(); ++rank) {
    if (connection_of_rank_[rank] == connection) return static_cast<int>(rank);
  }
  return std::nullopt;
}

bool CoordinatorWorld::Handle(size_t connection, absl::string_view frame) {
  WireReader reader(frame);
  const auto type = static_cast<MessageType>(reader.U8());
  const std::optional<int> rank = RankOf(connection);
  if (!rank.has_value() || !started_) return false;
  bool understood = false;
  switch (type) {
    case MessageType::kCall:
    case MessageType::kSplit:
    case MessageType::kMeet:
    case MessageType::kLeave:
      understood = HandleInGroup(type, *rank, reader);
      break;
    case MessageType::kBreak: {
      const absl::Status reason = ReadStatus(reader);
      understood = reader.IsComplete() && !reason.ok();
      if (understood) world_->Break(reason, *rank);
      break;
    }
    case MessageType::kReturned: {
      const absl::Status status = ReadStatus(reader);
      understood = reader.IsComplete();
      if (understood) world_->RankReturned(*rank, status);
      break;
    }
    default:
      break;
  }
  Settle();
  return understood;
}

absl::Status CoordinatorWorld::Join(size_t connection, const Announcement& who) {
  if (!refused_.ok()) return refused_;
  const auto refuse = [&](const std::string& what) {
    const absl::Status reason = absl::InvalidArgumentError(what);
    if (options_.key.Tells()) RefuseAll(reason);
    return reason;
  };
  if (who.world_size != options_.world_size || who.rank < 0 || who.rank >= who.world_size) {
    return refuse(absl::StrCat("rank ", who.rank, " joined a world of ", who.world_size,
                               " ranks, but rank 0 has a world of ", options_.world_size,
                               "; start all ranks with the same world size"));
  }
  if (who.back_end != options_.back_end) {
    return refuse(absl::StrCat("rank ", who.rank, " communicates by '",
                               absl::CHexEscape(who.back_end), "', rank 0 by '", options_.back_end,
                               "'; start all ranks with the same flags"));
  }
  std::optional<size_t>& place = connection_of_rank_[static_cast<size_t>(who.rank)];
  if (place.has_value() || started_) {
    return refuse(absl::StrCat("two processes say that they are rank ", who.rank, " of ",
                               who.world_size,
                               "; give each its own rank, and two jobs on one node different "
                               "ports (MASTER_PORT)"));
  }
  place = connection;
  Send(connection, Message(MessageType::kJoined));
  started_ = std::find(connection_of_rank_.begin(), connection_of_rank_.end(), std::nullopt) ==
             connection_of_rank_.end();
  if (started_) SendToAll(Message(MessageType::kWelcome));
  return absl::OkStatus();
}

void CoordinatorWorld::TurnedAway(const std::string& whom) {
  constexpr int kMostLines = 10;
  last_turned_away_ = whom;
  if (++turned_away_ > kMostLines) return;
  std::fprintf(stderr, "rank 0: turned away %s%s\n", whom.c_str(),
               turned_away_ < kMostLines ? "" : "; says nothing of more of them");
}

void CoordinatorWorld::RefuseAll(const absl::Status& reason) {
  if (started_ || !refused_.ok()) return;
  refused_ = reason;
  SendToAll(StatusMessage(MessageType::kRefused, reason));
}

bool CoordinatorWorld::HandleInGroup(MessageType type, int world_rank, WireReader& reader) {
  const uint32_t id = reader.U32();
  std::optional<CollectiveCall> call;
  SplitRequest request;
  std::string value;
  if (type == MessageType::kCall) {
    call = ReadCall(reader);
    if (!call.has_value()) return false;
  } else if (type == MessageType::kSplit) {
    request.color = reader.I32();
    request.key = reader.I32();
  } else if (type == MessageType::kMeet) {
    value = reader.String();
  }
  int rank = 0;
  Group* const group = Find(id, world_rank, &rank);
  if (!reader.IsComplete() || group == nullptr) return false;
  std::lock_guard<std::mutex> lock(world_->mutex());
  if (type == MessageType::kCall) {
    Call(*group, rank, *call);
  } else if (type == MessageType::kSplit) {
    group->requests[static_cast<size_t>(rank)] = request;
    if (group->splits.ArriveOnHost("split", rank)) AssignSeats(*group);
  } else if (type == MessageType::kMeet) {
    group->values[static_cast<size_t>(rank)] = std::move(value);
    if (group->meetings.ArriveOnHost("setting_up", rank)) {
      WireWriter met = Message(MessageType::kMet).U32(id);
      met.U32(static_cast<uint32_t>(group->values.size()));
      for (const std::string& one : group->values) met.String(one);
      SendToGroup(*group, met);
    }
  } else {
    for (Watched* watched : group->watched()) watched->ledger.LeaveLocked(rank);
  }
  return true;
}

void CoordinatorWorld::Call(Group& group, int rank, const CollectiveCall& call) {
  CallLedger& ledger = group.calls.ledger;
  if (!ledger.IssueLocked(rank).ok()) return;
  last_call_[static_cast<size_t>(ledger.world_rank(rank))] =
      absl::StrCat(call.ToString(), " on ", ledger.name());
  group.ahead[static_cast<size_t>(rank)].push_back(call);
  ArriveAtTurn(group, rank);
  if (ledger.completed() != group.announced) {
    group.announced = ledger.completed();
    SendToGroup(group, Message(MessageType::kAgreed).U32(group.id).U64(group.announced));
  }
}

void CoordinatorWorld::ArriveAtTurn(Group& group, int first) {
  std::vector<int> ready = {first};
  while (!ready.empty()) {
    const int rank = ready.back();
    ready.pop_back();
    std::deque<CollectiveCall>& ahead = group.ahead[static_cast<size_t>(rank)];
    if (ahead.empty() || group.calls.ledger.IsWaitingLocked(rank)) continue;
    const CollectiveCall call = std::move(ahead.front());
    ahead.pop_front();
    const absl::StatusOr<bool> completes = group.calls.Arrive(rank, call);
    if (!completes.ok()) return;
    if (!*completes) continue;
    for (int r = 0; r < group.calls.ledger.size(); ++r) {
      if (!group.ahead[static_cast<size_t>(r)].empty()) ready.push_back(r);
    }
  }
}

absl::StatusOr<bool> CoordinatorWorld::Watched::Arrive(int rank, const CollectiveCall& call) {
  const uint64_t before = ledger.completed();
  ZEROTH_RETURN_IF_ERROR(ledger.ArriveLocked(rank, call));
  const bool completes = ledger.completed() != before;
  if (completes) {
    since.reset();
  } else if (!since.has_value()) {
    since = Clock::now();
  }
  return completes;
}

bool CoordinatorWorld::Watched::ArriveOnHost(absl::string_view operation, int rank) {
  CollectiveCall call;
  call.operation = operation;
  const absl::StatusOr<uint64_t> index = ledger.IssueLocked(rank);
  if (!index.ok()) return false;
  call.index = *index;
  return Arrive(rank, call).value_or(false);
}

void CoordinatorWorld::AssignSeats(Group& group) {
  std::vector<WireWriter> seats(group.world_ranks.size(),
                                Message(MessageType::kSeat).U32(group.id).U32(kNoGroup));
  for (const std::vector<int>& ranks : SplitGroups(group.requests)) {
    std::vector<int> world_ranks;
    for (int rank : ranks) world_ranks.push_back(group.world_ranks[static_cast<size_t>(rank)]);
    const uint32_t id = next_group_;
    for (size_t i = 0; i < ranks.size(); ++i) {
      WireWriter seat = Message(MessageType::kSeat).U32(group.id).U32(id);
      seat.U32(static_cast<uint32_t>(i)).U32(static_cast<uint32_t>(world_ranks.size()));
      for (int world_rank : world_ranks) seat.I32(world_rank);
      seats[static_cast<size_t>(ranks[i])] = seat;
    }
    CreateGroup(std::move(world_ranks));
  }
  for (size_t rank = 0; rank < seats.size(); ++rank) {
    const auto& connection = connection_of_rank_[static_cast<size_t>(group.world_ranks[rank])];
    if (connection.has_value()) Send(*connection, seats[rank]);
  }
}

void CoordinatorWorld::Disconnected(size_t connection) {
  const std::optional<int> rank = RankOf(connection);
  if (!rank.has_value()) return;
  connection_of_rank_[static_cast<size_t>(*rank)].reset();
  if (!started_) return;  // the rank may try again in time
  const std::string& last = last_call_[static_cast<size_t>(*rank)];
  world_->RankReturned(
      *rank,
      absl::UnavailableError(absl::StrCat(
          "its process has ended or cannot be reached: the connection to it is lost (",
          last.empty() ? "it had made no call yet" : absl::StrCat("its last call was ", last),
          ")")));
  Settle();
}

void CoordinatorWorld::Settle() {
  const absl::Status broken = world_->status();
  if (!broken.ok() && !broken_since_.has_value()) {
    broken_since_ = Clock::now();
    SendToAll(StatusMessage(MessageType::kBroken, broken));
  }
  if (over_ || !world_->AllReturned()) return;
  over_ = true;
  SendToAll(StatusMessage(MessageType::kAllReturned, world_->RootCause()));
}

std::optional<CoordinatorWorld::Clock::time_point> CoordinatorWorld::NextTimeout() const {
  if (over_ || !refused_.ok()) return std::nullopt;
  if (broken_since_.has_value()) return *broken_since_ + kGrace;
  if (!started_) return start_ + limit_;
  std::optional<Clock::time_point> first;
  for (const auto& [id, group] : groups_) {
    for (const Watched* watched : group->watched()) {
      if (!watched->since.has_value()) continue;
      const Clock::time_point end = *watched->since + limit_;
      if (!first.has_value() || end < *first) first = end;
    }
  }
  return first;
}

void CoordinatorWorld::CheckTimeouts(Clock::time_point now) {
  const std::optional<Clock::time_point> next = NextTimeout();
  if (!next.has_value() || now < *next) return;
  if (!started_) {
    std::vector<std::string> missing;
    for (int rank = 0; rank < options_.world_size; ++rank) {
      if (connection_of_rank_[static_cast<size_t>(rank)].has_value()) continue;
      missing.push_back(absl::StrCat("rank ", rank));
    }
    RefuseAll(absl::DeadlineExceededError(absl::StrCat(
        "timeout after ", absl::FormatDuration(options_.timeout), ": of ", options_.world_size,
        " ranks, ", absl::StrJoin(missing, ", "), " did not come to rank 0's port ", port_,
        "; are all processes started, and do they all have the same MASTER_ADDR and "
        "MASTER_PORT?",
        turned_away_ == 0 ? ""
                          : absl::StrCat(" Turned away were ", turned_away_, ", the last of them ",
                                         last_turned_away_))));
    return;
  }
  if (broken_since_.has_value()) {
    for (int rank = 0; rank < options_.world_size; ++rank)
      world_->RankReturned(rank, world_->status());
  } else {
    std::lock_guard<std::mutex> lock(world_->mutex());
    for (const auto& [id, group] : groups_) {
      for (Watched* watched : group->watched()) {
        if (watched->since.has_value() && *watched->since + limit_ <= now) {
          watched->ledger.TimeOutLocked(watched->ledger.first_to_arrive());
        }
      }
    }
  }
  Settle();
}

void CoordinatorWorld::Send(size_t connection, const WireWriter& message) {
  output_.emplace_back(connection, message.bytes());
}

void CoordinatorWorld::SendToGroup(const Group& group, const WireWriter& message) {
  for (int member : group.world_ranks) {
    const auto& connection = connection_of_rank_[static_cast<size_t>(member)];
    if (connection.has_value()) Send(*connection, message);
  }
}

void CoordinatorWorld::SendToAll(const WireWriter& message) {
  SendToGroup(*groups_.at(kWorldGroup), message);
}

std::vector<std::pair<size_t, std::string>> CoordinatorWorld::TakeOutput() {
  return std::exchange(output_, {});
}

}  // namespace zeroth
