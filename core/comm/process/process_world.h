// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One rank's side of a world of processes. Back ends that move data by other means (MPI, NCCL) use
// it to meet, to agree on every call, and to learn that the world has broken.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/process/hang_watchdog.h"
#include "zeroth/core/comm/process/meeting.h"
#include "zeroth/core/comm/process/messages.h"
#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/core/comm/process/socket.h"
#include "zeroth/core/comm/world_state.h"

namespace zeroth {

// A rank posts each call before it makes it, without waiting. The coordinator compares the ranks'
// calls as they arrive. The world breaks on all ranks, with the errors of communicator.h, if calls
// differ, if a rank is missing for too long, or if one fails, aborts, returns early or dies. Then
// the back end must stop what moves the data (OnBreak). Thread-safe.
class ProcessWorld {
 public:
  // This rank's place in a group.
  struct Seat {
    uint32_t group = kNoGroup;
    int rank = 0;
    std::vector<int> world_ranks;
  };

  // Meets the other ranks (meeting.h). In rank 0's process it also starts the coordinator.
  static absl::StatusOr<std::unique_ptr<ProcessWorld>> Join(const ProcessEnvironment& environment,
                                                            const LaunchOptions& options,
                                                            absl::string_view back_end);
  // The other ranks consider this one dead unless it has called Return.
  ~ProcessWorld();

  int rank() const { return environment_.rank; }
  int size() const { return environment_.world_size; }
  absl::Duration timeout() const { return options_.timeout; }
  // LaunchOptions::ends_stuck_process.
  bool ends_stuck_process() const { return options_.ends_stuck_process; }
  const std::string& back_end() const { return back_end_; }
  Seat WorldSeat() const;
  // "nccl world ranks [0, 1]".
  std::string NameOf(const Seat& seat) const;

  // The error that broke the world, or OK. Also OK until the hooks of OnBreak have run.
  absl::Status status() const;
  // Like status(), but waits for the hooks of OnBreak if they are running.
  absl::Status StatusAfterHooks() const;
  // The error that broke the world, or OK. Does not wait for the hooks of OnBreak, which may hang.
  absl::Status StatusBeforeHooks() const;
  // Breaks the world on all ranks, unless it is broken already. Returns when this rank knows of it.
  // `reason` must name this rank.
  void Break(const absl::Status& reason);
  // Breaks the world with "rank 3 failed: what: error". Returns the world's error, which is another
  // one if the world was broken before.
  absl::Status Fail(const absl::Status& error, absl::string_view what);
  // "rank 3 failed".
  std::string Failed() const;
  // Runs `stop` once the world has broken, on another thread, before this rank's callers learn of
  // it. If the world has broken already, runs it at once. `stop` must not wait for this rank's own
  // work, which may be waiting to learn that the world has broken.
  void OnBreak(std::function<void()> stop);
  // `unfinished` returns what this rank's transport has not finished, for the message of the
  // watchdog; empty if nothing. It is called on another thread, and must not block.
  void NameUnfinished(std::function<std::string()> unfinished);

  // Posts this rank's next calls in a group, at least one, in one message. Returns the last call's
  // number in the group, from 1, or the world's error. Ignores CollectiveCall::index. `awaits`:
  // AwaitAgreed of the last call follows at once, so it need not ask the coordinator.
  absl::StatusOr<uint64_t> PostAll(uint32_t group, std::vector<CollectiveCall> calls,
                                   bool awaits = false);
  absl::StatusOr<uint64_t> Post(uint32_t group, CollectiveCall call, bool awaits = false) {
    return PostAll(group, {std::move(call)}, awaits);
  }
  // Returns the number of matching calls that all ranks of the group have posted, as this rank was
  // told last. A number that no rank awaits comes late, by less than a second.
  uint64_t Agreed(uint32_t group) const;
  // Waits until Agreed is at least `count`. Returns the world's error if it breaks first.
  absl::Status AwaitAgreed(uint32_t group, uint64_t count);

  // Like Communicator::Split. Returns a seat without a group for a negative color.
  absl::StatusOr<Seat> Split(uint32_t group, int color, int key);
  // A barrier on the host: waits until all ranks of the group have called it. Returns the small
  // values that they passed, in the order of ranks.
  absl::StatusOr<std::vector<std::string>> Meet(uint32_t group, absl::string_view value = "");
  // Tells all ranks of the world which node this one is on (node.h), and learns theirs. Collective
  // on the host.
  absl::Status AnnounceNode();
  // RanksPerNode (node.h) of the group, or 1 before AnnounceNode.
  int RanksPerNodeOf(const Seat& seat) const;
  // Says that this rank makes no further calls in the group.
  void Leave(uint32_t group);

  // This rank's work has ended with `status`. Waits until all ranks have called Return. The result
  // is the same on all ranks: OK if all succeeded, otherwise the error of the rank that failed
  // first, with its number.
  absl::Status Return(const absl::Status& status);

 private:
  ProcessWorld(const ProcessEnvironment& environment, const LaunchOptions& options,
               absl::string_view back_end, Meeting meeting, Socket stop);

  void Read();
  bool Handle(absl::string_view frame);
  void Broken(const absl::Status& reason);
  // Returns the message of the watchdog, which says where this process hangs.
  std::string DescribeHang(const absl::Status& reason);
  absl::Status Send(const WireWriter& message);
  template <typename Predicate>
  absl::Status Await(std::unique_lock<std::mutex>& lock, Predicate done);
  // Sends `question` in a group, and returns the answer once it is in `answers`.
  template <typename T>
  absl::StatusOr<T> Ask(uint32_t group, const WireWriter& question, std::map<uint32_t, T>& answers);

  const ProcessEnvironment environment_;
  const LaunchOptions options_;
  const std::string back_end_;

  mutable std::mutex mutex_;
  // Read by the watchdog, so these are destroyed after it.
  std::optional<SharedError> broken_;
  bool stopped_ = false;  // the world has broken, and the hooks of OnBreak have run
  bool has_returned_ = false;
  std::optional<CollectiveCall> last_posted_;
  std::function<std::string()> unfinished_;
  std::optional<SharedError> all_returned_;  // its code is OK if all ranks succeeded

  // Set when the world breaks. Destroyed after all later members, whose destruction may hang.
  std::unique_ptr<HangWatchdog> watchdog_;
  // Destroyed after all later members, because it has rank 0's coordinator.
  Meeting meeting_;
  const Socket stop_;  // ends the reading thread
  std::thread reader_;

  std::mutex send_mutex_;

  // Guarded by mutex_, as those above:
  mutable std::condition_variable changed_;
  std::vector<std::function<void()>> on_break_;
  struct Calls {
    uint64_t posted = 0;
    uint64_t asked = 0;  // the number that the coordinator was asked for last
    uint64_t agreed = 0;
  };
  std::map<uint32_t, Calls> calls_;  // by group
  // Answers that have arrived, by the group that was asked.
  std::map<uint32_t, Seat> seats_;
  std::map<uint32_t, std::vector<std::string>> met_;
  std::map<uint32_t, MeetingAnswer> meeting_parts_;  // incomplete: more parts must arrive
  bool connection_lost_ = false;
  std::vector<std::string> nodes_;  // by world rank
};

}  // namespace zeroth
