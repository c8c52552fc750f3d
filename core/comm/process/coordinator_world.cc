// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/coordinator_world.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <numeric>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/ranks_text.h"

namespace zeroth {
namespace {

// Ranks return soon after they learn that the world has broken. The others wait no longer than this
// for a rank that hangs.
constexpr auto kGrace = std::chrono::seconds(30);

}  // namespace

CoordinatorWorld::CoordinatorWorld(const Coordinator::Options& options, int port)
    : options_(options),
      port_(port),
      limit_(OnClock(options.timeout)),
      start_(Clock::now()),
      world_(std::make_shared<WorldState>(options.world_size, options.timeout)),
      connection_of_rank_(static_cast<size_t>(options.world_size)),
      last_call_(static_cast<size_t>(options.world_size)),
      last_message_(static_cast<size_t>(options.world_size)) {
  std::vector<int> all(static_cast<size_t>(options.world_size));
  std::iota(all.begin(), all.end(), 0);
  std::lock_guard<std::mutex> lock(world_->mutex());
  CreateGroup(std::move(all));
}

std::optional<int> CoordinatorWorld::RankOf(size_t connection) const {
  const auto found = rank_of_connection_.find(connection);
  if (found == rank_of_connection_.end()) return std::nullopt;
  return found->second;
}

bool CoordinatorWorld::Handle(size_t connection, absl::string_view frame, Clock::time_point now) {
  WireReader reader(frame);
  const auto type = static_cast<MessageType>(reader.U8());
  const std::optional<int> rank = RankOf(connection);
  if (!rank.has_value() || !started_) return false;
  last_message_[static_cast<size_t>(*rank)] = now;
  bool understood = false;
  switch (type) {
    case MessageType::kCall:
    case MessageType::kSplit:
    case MessageType::kMeet:
    case MessageType::kLeave:
    case MessageType::kAwait:
      understood = HandleInGroup(type, *rank, reader);
      break;
    case MessageType::kBreak: {
      const absl::Status reason = WithSilentRanks(ReadStatus(reader), now);
      understood = reader.IsComplete() && !reason.ok();
      if (understood) world_->Break(reason, *rank);
      break;
    }
    case MessageType::kPing:
      understood = reader.IsComplete();
      Send(connection, Message(MessageType::kPong));
      break;
    case MessageType::kReturned: {
      // A rank that gives up before it has a communicator, as NCCL's start does, only returns.
      const absl::Status status = WithSilentRanks(ReadStatus(reader), now);
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

absl::Status CoordinatorWorld::Join(size_t connection, const RankIdentity& who) {
  if (!refused_.ok()) return refused_;
  const auto refuse = [&](const std::string& what) {
    const absl::Status reason = absl::InvalidArgumentError(what);
    if (options_.key.IsSet()) RefuseAll(reason);
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
  rank_of_connection_[connection] = who.rank;
  Send(connection, Message(MessageType::kJoined));
  started_ = rank_of_connection_.size() == connection_of_rank_.size();
  if (started_) {
    SendToAll(Message(MessageType::kWelcome));
    std::fill(last_message_.begin(), last_message_.end(), Clock::now());
  }
  return absl::OkStatus();
}

std::string CoordinatorWorld::DescribeSilentRanks(Clock::time_point now) const {
  const auto most = limit_ / 2 + std::chrono::milliseconds(kPingGraceMs);
  std::vector<int> silent;
  for (int rank = 0; rank < options_.world_size; ++rank) {
    if (now - last_message_[static_cast<size_t>(rank)] > most) silent.push_back(rank);
  }
  if (silent.empty()) return "";
  return absl::StrCat("; for more than ", absl::FormatDuration(absl::FromChrono(most)),
                      " nothing has come from ", RanksText(silent),
                      ": see whether it was stopped, or its machine or network has failed");
}

absl::Status CoordinatorWorld::WithSilentRanks(const absl::Status& status,
                                               Clock::time_point now) const {
  if (!absl::IsDeadlineExceeded(status) || !world_->status().ok()) return status;
  return absl::DeadlineExceededError(absl::StrCat(status.message(), DescribeSilentRanks(now)));
}

void CoordinatorWorld::ReportRejected(const std::string& whom) {
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

void CoordinatorWorld::Disconnected(size_t connection) {
  const std::optional<int> rank = RankOf(connection);
  if (!rank.has_value()) return;
  rank_of_connection_.erase(connection);
  connection_of_rank_[static_cast<size_t>(*rank)].reset();
  if (!started_) return;  // the rank may try again in time
  const LastCall& last = last_call_[static_cast<size_t>(*rank)];
  const std::string did =
      last.call == nullptr
          ? "it had made no call yet"
          : absl::StrCat("its last call was ", last.call->ToString(), " on ", *last.group_name);
  world_->RankReturned(
      *rank,
      absl::UnavailableError(absl::StrCat(
          "its process has ended or cannot be reached: the connection to it is lost (", did, ")")));
  Settle();
}

void CoordinatorWorld::Settle() {
  absl::Status broken;
  bool all_returned = false;
  {
    std::lock_guard<std::mutex> lock(world_->mutex());
    if (!broken_since_.has_value()) broken = world_->StatusLocked();
    all_returned = world_->AllReturnedLocked();
  }
  left_.clear();
  if (!broken.ok()) {
    broken_since_ = Clock::now();
    // Calls that all ranks had posted before still succeed on all ranks.
    AnnounceAll(due_);
    AnnounceAll(put_off_);
    SendToAll(StatusMessage(MessageType::kBroken, broken));
  }
  if (over_ || !all_returned) return;
  over_ = true;
  // No timeout would announce them later.
  AnnounceAll(due_);
  AnnounceAll(put_off_);
  SendToAll(StatusMessage(MessageType::kAllReturned, world_->RootCause()));
}

std::optional<CoordinatorWorld::Clock::time_point> CoordinatorWorld::NextTimeout() const {
  if (over_ || !refused_.ok()) return std::nullopt;
  if (broken_since_.has_value()) return *broken_since_ + kGrace;
  if (!started_) return start_ + limit_;
  if (put_off_.empty()) return no_timeout_before_;
  return std::min(put_off_until_, no_timeout_before_.value_or(put_off_until_));
}

void CoordinatorWorld::CheckTimeouts(Clock::time_point now) {
  const std::optional<Clock::time_point> next = NextTimeout();
  if (!next.has_value() || now < *next) return;
  if (!started_) {
    std::vector<int> missing;
    for (int rank = 0; rank < options_.world_size; ++rank) {
      if (!connection_of_rank_[static_cast<size_t>(rank)].has_value()) missing.push_back(rank);
    }
    RefuseAll(absl::DeadlineExceededError(absl::StrCat(
        "timeout after ", absl::FormatDuration(options_.timeout), ": of ", options_.world_size,
        " ranks, ", RanksText(missing), " did not come to rank 0's port ", port_,
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
    if (!put_off_.empty() && put_off_until_ <= now) AnnounceAll(put_off_);
    if (no_timeout_before_.has_value() && *no_timeout_before_ <= now) TimeOutWaits(now);
  }
  Settle();
}

void CoordinatorWorld::TimeOutWaits(Clock::time_point now) {
  std::lock_guard<std::mutex> lock(world_->mutex());
  no_timeout_before_.reset();
  for (const std::unique_ptr<Group>& group : groups_) {
    if (group == nullptr) continue;
    for (TimedLedger* timed : group->ledgers()) {
      if (!timed->since.has_value()) continue;
      const Clock::time_point end = *timed->since + limit_;
      if (end <= now) {
        timed->ledger.TimeOutLocked(timed->ledger.first_to_arrive(), DescribeSilentRanks(now));
      } else {
        no_timeout_before_ = std::min(end, no_timeout_before_.value_or(end));
      }
    }
  }
}

void CoordinatorWorld::Send(size_t connection, const WireWriter& message) {
  output_.push_back({{connection}, message.bytes()});
}

void CoordinatorWorld::SendToGroup(const Group& group, std::string message) {
  Output& output = output_.emplace_back();
  output.message = std::move(message);
  output.connections.reserve(group.world_ranks.size());
  for (int member : group.world_ranks) {
    const auto& connection = connection_of_rank_[static_cast<size_t>(member)];
    if (connection.has_value()) output.connections.push_back(*connection);
  }
}

void CoordinatorWorld::SendToAll(const WireWriter& message) {
  SendToGroup(*groups_[kWorldGroup], message.bytes());
}

std::vector<CoordinatorWorld::Output> CoordinatorWorld::TakeOutput() {
  AnnounceAll(due_);
  return std::exchange(output_, {});
}

}  // namespace zeroth
