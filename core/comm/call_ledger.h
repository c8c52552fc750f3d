// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tracks which calls the ranks of a group have made, whether they match, and which ranks are
// missing. The back ends share this bookkeeping for the errors of communicator.h. It never blocks.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/world_state.h"

namespace zeroth {

// A call that several ranks share if they made it with equal arguments.
using SharedCall = std::shared_ptr<const CollectiveCall>;

// A rank first issues a call, which promises it, and then arrives at it. It may arrive at its next
// call only after all ranks have arrived at this one. `rank` is a rank of the group. Functions that
// end in Locked need the world's mutex held.
class CallLedger {
 public:
  // Group rank r is rank world_ranks[r] of the world. `name` is the communicator's. The world's
  // mutex must be held.
  CallLedger(std::shared_ptr<WorldState> world, std::vector<int> world_ranks, std::string name);
  ~CallLedger();

  WorldState& world() const { return *world_; }
  int size() const { return static_cast<int>(world_ranks_.size()); }
  int world_rank(int rank) const { return world_ranks_[static_cast<size_t>(rank)]; }
  // The rank within the group of `world_rank`, if that is a member.
  std::optional<int> GroupRank(int world_rank) const;
  const std::string& name() const { return name_; }

  // `rank` issues a call. Returns the call's index, or the world's error.
  absl::StatusOr<uint64_t> IssueLocked(int rank);
  // `rank` arrives at its next call. If others are missing, the ledger counts it as waiting.
  // Returns the world's error if it is broken. FailedPrecondition, which breaks the world, if the
  // call differs from another rank's, or if a missing rank will never make it.
  absl::Status ArriveLocked(int rank, const CollectiveCall& call);
  // Like the function above, but shares the call: equal pointers skip the comparison of fields.
  absl::Status ArriveLocked(int rank, SharedCall call);
  // The number of calls that all ranks have arrived at. May be read without the mutex.
  uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
  // The numbers of calls that `rank` has issued, and that it has arrived at.
  uint64_t IssuedLocked(int rank) const { return members_[static_cast<size_t>(rank)].issued; }
  uint64_t ArrivedLocked(int rank) const { return members_[static_cast<size_t>(rank)].arrived; }
  bool IsWaitingLocked(int rank) const { return IsWaiting(members_[static_cast<size_t>(rank)]); }
  // The first rank to arrive at the call for which others are missing.
  int first_to_arrive() const { return first_to_arrive_; }
  // Breaks the world because `rank` has waited in its call for too long. `more` ends the message.
  void TimeOutLocked(int rank, absl::string_view more = "");
  // `rank` has destroyed its communicator and makes no further calls here.
  void LeaveLocked(int rank);
  // True if all ranks have destroyed their communicators.
  bool AllLeftLocked() const { return left_ == size(); }

  // Notified when the world breaks. For threads that wait for the ledger with the world's mutex.
  std::condition_variable& changed() { return changed_; }
  // The main function of `world_rank` has returned, so it makes no further calls here. Returns the
  // error of the ranks that wait for it here; empty if none does.
  std::string DepartLocked(int world_rank);
  // Returns the call in which `world_rank` waits for others here; empty if it does not wait.
  std::string DescribeWaitOfLocked(int world_rank) const;

 private:
  struct Member {
    uint64_t issued = 0;
    uint64_t arrived = 0;
    SharedCall last_call;  // the one that arrived last; null if none has
    bool left = false;
  };

  bool IsWaiting(const Member& member) const { return member.arrived > completed(); }
  std::string RankName(int rank) const;
  // `rank` makes no further calls. Returns the error of the ranks that wait for it; empty if none
  // does.
  std::string DepartMemberLocked(int rank);
  absl::Status CheckMatchLocked(int rank, const CollectiveCall& call) const;
  // Returns a rank that will never make the next call; -1 if there is none.
  int FindDepartedLocked() const;
  std::string DescribeDepartureLocked(int departed, int waiting) const;
  std::string DescribeMemberLocked(int rank) const;

  const std::shared_ptr<WorldState> world_;
  const std::vector<int> world_ranks_;
  const std::string name_;
  std::unordered_map<int, int> place_of_world_rank_;
  std::vector<Member> members_;
  int present_ = 0;  // ranks that have arrived at the next call
  int first_to_arrive_ = 0;
  int left_ = 0;  // ranks that have destroyed their communicator
  // The fewest calls that a rank had issued when it destroyed its communicator or returned. Once
  // the others have completed that many, that rank will never join their next call.
  uint64_t calls_before_departure_ = std::numeric_limits<uint64_t>::max();
  std::atomic<uint64_t> completed_{0};
  std::condition_variable changed_;
};

}  // namespace zeroth
