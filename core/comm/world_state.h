// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Whether a world of ranks still works, and who has left it: what back ends keep in one place, in
// the process that the ranks share or in the one where they meet.

#ifndef ZEROTH_CORE_COMM_WORLD_STATE_H_
#define ZEROTH_CORE_COMM_WORLD_STATE_H_

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace zeroth {

// One mutex guards the world and every rendezvous in it, so that "the world broke" and "the last
// rank arrived" cannot happen at once: a call either runs on all of its ranks or on none. It is
// held for bookkeeping only, never while data moves. Thread-safe; functions that end in Locked need
// the mutex held.
class WorldState {
 public:
  // A place where ranks wait for each other. Registered for as long as it exists.
  class Channel {
   public:
    virtual ~Channel() = default;
    // The world broke: those who wait must look.
    virtual void WakeLocked() = 0;
    // Why the others can wait no longer now that `world_rank` makes no further calls; empty if none
    // waits for it.
    virtual std::string DescribeWaitForLocked(int world_rank) const = 0;
    // The call in which `world_rank` waits for others here; empty if it does not.
    virtual std::string DescribeWaitOfLocked(int world_rank) const = 0;
  };

  WorldState(int size, absl::Duration timeout);
  WorldState(const WorldState&) = delete;
  WorldState& operator=(const WorldState&) = delete;

  int size() const { return size_; }
  absl::Duration timeout() const { return timeout_; }
  std::mutex& mutex() { return mutex_; }

  // OK, or the error that broke the world; each call returns a status that shares nothing with
  // other threads.
  absl::Status StatusLocked() const;
  bool IsBrokenLocked() const { return broken_.has_value(); }
  absl::Status status();

  // Breaks the world unless it is broken, on account of `world_rank`.
  void BreakLocked(const absl::Status& reason, int world_rank);
  void Break(const absl::Status& reason, int world_rank);
  // As Break, for a call that `world_rank` issued but whose stream will not run it, for the
  // stream's error `cause` (OK: unknown). What the rank then returns may say more, so RootCause()
  // prefers it.
  void BreakByDroppedCall(const std::string& call, int world_rank, const absl::Status& cause);
  // As Break, because `world_rank` gave up a communicator on which others wait. That is what a rank
  // does on its way out of an error of its own, so here too RootCause() prefers what it returns.
  void BreakByDepartureLocked(const std::string& departure, int world_rank);

  // `world_rank`'s main function has ended.
  void RankReturned(int world_rank, const absl::Status& status);
  bool HasReturnedLocked(int world_rank) const {
    return returned_[static_cast<size_t>(world_rank)];
  }
  // What to report once all have returned: OK if all returned OK, otherwise the error that came
  // first, with its rank.
  absl::Status RootCause();

  void RegisterLocked(Channel* channel) { channels_.insert(channel); }
  void Unregister(Channel* channel);
  // Where `world_rank` waits, in any channel but `except`; empty if nowhere.
  std::string DescribeWaitElsewhereLocked(int world_rank, const Channel* except) const;

 private:
  // Statuses are kept as plain values: absl::Status counts references in a library that sanitizers
  // cannot look into.
  struct Failure {
    absl::StatusCode code;
    std::string message;
    int world_rank;
    bool is_symptom = false;  // what the rank then returns names the cause better
    absl::Status ToStatus() const { return absl::Status(code, message); }
  };

  void BreakLocked(Failure failure);

  const int size_;
  const absl::Duration timeout_;
  std::mutex mutex_;
  std::optional<Failure> broken_;
  std::vector<bool> returned_;
  std::vector<Failure> returned_errors_;  // in the order in which ranks returned them
  std::set<Channel*> channels_;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_WORLD_STATE_H_
