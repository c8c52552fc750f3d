// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The state of a world of ranks: the error that broke it, and which ranks have returned. A back end
// has one, in the process that all ranks share or in the coordinator's. Also divides ranks into
// groups.

#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace zeroth {

// An error that threads share. absl::Status counts references inside a library that sanitizers do
// not see, so the code and the message are kept as plain values, and each reader makes a Status.
struct SharedError {
  explicit SharedError(const absl::Status& status)
      : code(status.code()), message(status.message()) {}
  absl::Status ToStatus() const { return absl::Status(code, message); }

  absl::StatusCode code;
  std::string message;
};

class CallLedger;

// One mutex guards the world and every ledger of calls in it. So a call either runs on all of its
// ranks or on none: the world cannot break while the last rank arrives. The mutex is held for
// bookkeeping only, never while data moves. Thread-safe. Functions that end in Locked need the
// mutex held.
class WorldState {
 public:
  WorldState(int size, absl::Duration timeout);
  WorldState(const WorldState&) = delete;
  WorldState& operator=(const WorldState&) = delete;

  int size() const { return size_; }
  absl::Duration timeout() const { return timeout_; }
  std::mutex& mutex() { return mutex_; }

  // The error that broke the world, or OK.
  absl::Status StatusLocked() const;
  bool IsBrokenLocked() const { return broken_.has_value(); }
  absl::Status status();

  // Breaks the world with the error of `world_rank`, unless it is broken already. `symptom`: the
  // rank is on its way out of another error, so RootCause() prefers the one that it returns later.
  void BreakLocked(const absl::Status& reason, int world_rank, bool symptom = false);
  void Break(const absl::Status& reason, int world_rank, bool symptom = false);

  // The main function of `world_rank` has returned `status`. Only the first call for a rank counts.
  void RankReturned(int world_rank, const absl::Status& status);
  bool AllReturnedLocked() const { return returned_count_ == size_; }
  bool HasReturnedLocked(int world_rank) const {
    return returned_[static_cast<size_t>(world_rank)];
  }
  // Returns the result of the world once all ranks have returned: OK if all returned OK, otherwise
  // the error that came first, with its rank.
  absl::Status RootCause();

  // Called by the constructor and the destructor of a ledger.
  void RegisterLocked(CallLedger* ledger) { ledgers_.insert(ledger); }
  void Unregister(CallLedger* ledger);
  // Returns the call in which `world_rank` waits, in any ledger but `except`; empty if it waits
  // nowhere.
  std::string DescribeWaitElsewhereLocked(int world_rank, const CallLedger* except) const;

 private:
  struct Failure : SharedError {
    Failure(const absl::Status& error, int failed_rank, bool symptom = false)
        : SharedError(error), world_rank(failed_rank), is_symptom(symptom) {}
    int world_rank;
    bool is_symptom;
  };

  const int size_;
  const absl::Duration timeout_;
  std::mutex mutex_;
  std::optional<Failure> broken_;
  std::vector<bool> returned_;
  int returned_count_ = 0;
  std::vector<Failure> returned_errors_;  // in the order in which ranks returned them
  std::set<CallLedger*> ledgers_;
};

// Returns the error of `world_rank` when its stream has dropped a call that it had issued. `cause`
// is the stream's error (OK: unknown).
absl::Status DroppedCall(int world_rank, const std::string& call, const absl::Status& cause);

// Returns `timeout`, or a year if that is shorter: no run takes that long, and a longer time would
// overflow the clock.
std::chrono::nanoseconds OnClock(absl::Duration timeout);

// The arguments of a rank's Communicator::Split.
struct SplitRequest {
  int color = 0;  // negative: the rank joins no group
  int key = 0;
};

// Returns the new groups by ascending color, each as ranks of the old group in the new group's
// order.
std::vector<std::vector<int>> SplitGroups(absl::Span<const SplitRequest> requests);

// Returns the name of a group's communicators: "nccl world ranks [0-7, 16]".
std::string GroupName(absl::string_view back_end, absl::Span<const int> world_ranks);

}  // namespace zeroth
