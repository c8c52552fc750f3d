// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One rank's side of a world of processes: what back ends that move data by other means (NCCL) use
// to meet, to agree on every call, and to learn that the world has broken.

#ifndef ZEROTH_CORE_COMM_PROCESS_PROCESS_WORLD_H_
#define ZEROTH_CORE_COMM_PROCESS_PROCESS_WORLD_H_

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

#include "zeroth/core/comm/collective_call.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/process/last_resort.h"
#include "zeroth/core/comm/process/meeting.h"
#include "zeroth/core/comm/process/messages.h"
#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/core/comm/process/socket.h"

namespace zeroth {

// A rank posts each call before it makes it, without waiting: the coordinator compares the ranks'
// calls as they come. A difference, a rank that is missing for too long, one that fails, aborts,
// returns early or dies, breaks the world on all ranks, with the errors of communicator.h; whoever
// moves the data must then be stopped (OnBreak). Thread-safe.
class ProcessWorld {
 public:
  // This rank's place in a group.
  struct Seat {
    uint32_t group = kNoGroup;
    int rank = 0;
    std::vector<int> world_ranks;
  };

  // Meets the others (meeting.h); in rank 0's process it also starts the coordinator.
  static absl::StatusOr<std::unique_ptr<ProcessWorld>> Join(const ProcessEnvironment& environment,
                                                            const LaunchOptions& options,
                                                            absl::string_view back_end);
  // Ranks that have not Returned are taken for dead by the others.
  ~ProcessWorld();

  int rank() const { return environment_.rank; }
  int size() const { return environment_.world_size; }
  absl::Duration timeout() const { return timeout_; }
  const std::string& back_end() const { return back_end_; }
  Seat WorldSeat() const;
  // "nccl world ranks [0, 1]".
  std::string NameOf(const Seat& seat) const;

  // The error that broke the world, or OK.
  absl::Status status() const;
  // The same, where the transport has been found stopped, which happens just before.
  absl::Status SettledStatus() const;
  // The same, while the transport is still being stopped, too, which may take for ever.
  absl::Status UnsettledStatus() const;
  // Breaks it on all ranks, unless it is broken already; waits until this rank knows. `reason` must
  // name this rank.
  void Break(const absl::Status& reason);
  // Breaks it with "rank 3 failed: what: error"; the world's error, which is this one unless there
  // was another before.
  absl::Status Fail(const absl::Status& error, absl::string_view what);
  // "rank 3 failed".
  std::string Failed() const;
  // `stop` runs once, on another thread, when the world has broken and before anyone is told so; at
  // once if it already has. It must not wait for this rank's own work to end, which may wait to be
  // told.
  void OnBreak(std::function<void()> stop);
  // `name` says, for the last resort's message, what this rank's transport has not finished; empty
  // if nothing. It is called on another thread, and must not wait for anybody.
  void NameUnfinished(std::function<std::string()> name);

  // Announces this rank's next call in a group, numbered by its place there, from 1, which is
  // returned. The world's error if it is broken.
  absl::StatusOr<uint64_t> Post(uint32_t group, CollectiveCall call);
  // How many calls all ranks of the group are known to have posted alike.
  uint64_t Agreed(uint32_t group) const;
  // Waits until that is at least `count`; the world's error if it breaks first.
  absl::Status AwaitAgreed(uint32_t group, uint64_t count);

  // See Communicator::Split. A seat without a group for a negative color.
  absl::StatusOr<Seat> Split(uint32_t group, int color, int key);
  // Waits until all ranks of the group are here: none goes on alone from what they make together.
  absl::Status Meet(uint32_t group);
  // This rank makes no further calls in the group.
  void Leave(uint32_t group);

  // Small values for all ranks. Get waits until somebody has put it, or the world breaks.
  absl::Status Put(absl::string_view key, absl::string_view value);
  absl::StatusOr<std::string> Get(absl::string_view key);

  // This rank has done its work, with `status`. Waits for all others; what all ranks return then is
  // the same: OK if all did, otherwise the error of the rank that failed first, with its number.
  absl::Status Return(const absl::Status& status);

 private:
  ProcessWorld(const ProcessEnvironment& environment, absl::Duration timeout,
               absl::string_view back_end, Meeting meeting, Socket stop);

  void Read();
  bool Handle(absl::string_view frame);
  void Broken(const absl::Status& reason);
  // The last resort's words.
  std::string WhatHangs(const absl::Status& reason);
  absl::Status Send(const WireWriter& message);
  template <typename Predicate>
  absl::Status Await(Predicate done);

  const ProcessEnvironment environment_;
  const absl::Duration timeout_;
  const std::string back_end_;
  // Set when the world breaks; goes last, since everything that comes after it may hang.
  std::unique_ptr<LastResort> last_resort_;
  // Its coordinator goes after everything else here.
  Meeting meeting_;
  const Socket stop_;  // ends the reading thread
  std::thread reader_;

  std::mutex send_mutex_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Kept as plain values: absl::Status counts references in a library that sanitizers cannot look
  // into.
  struct Failure {
    absl::StatusCode code = absl::StatusCode::kUnknown;
    std::string message;
    absl::Status ToStatus() const { return absl::Status(code, message); }
  };
  std::optional<Failure> broken_;
  bool stopped_ = false;  // the hooks of OnBreak have run
  bool has_returned_ = false;
  std::optional<CollectiveCall> last_posted_;
  std::vector<std::function<std::string()>> names_;
  std::vector<std::function<void()>> on_break_;
  std::map<uint32_t, uint64_t> posted_;
  std::map<uint32_t, uint64_t> agreed_;
  std::optional<Seat> seat_;
  std::map<uint32_t, uint64_t> met_;  // how often
  std::map<std::string, std::string> values_;
  std::optional<Failure> all_returned_;  // of code OK if all is well
  bool connection_lost_ = false;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PROCESS_PROCESS_WORLD_H_
