// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What the coordinator knows and decides: messages in, messages out. No sockets here.

#ifndef ZEROTH_CORE_COMM_PROCESS_COORDINATOR_WORLD_H_
#define ZEROTH_CORE_COMM_PROCESS_COORDINATOR_WORLD_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/call_ledger.h"
#include "zeroth/core/comm/process/coordinator.h"
#include "zeroth/core/comm/process/handshake.h"
#include "zeroth/core/comm/process/messages.h"
#include "zeroth/core/comm/split_groups.h"
#include "zeroth/core/comm/world_state.h"

namespace zeroth {

// Connections are known by number. Not thread-safe.
class CoordinatorWorld {
 public:
  using Clock = std::chrono::steady_clock;

  // `port` is for messages.
  CoordinatorWorld(const Coordinator::Options& options, int port);

  // Somebody who has shown to be a rank of this job. Why not, if it is none of those that are
  // awaited: where the job has an id or a secret, so that it must be one of its ranks, the others
  // are told the same; otherwise it may be another job's, and they go on waiting.
  absl::Status Join(size_t connection, const Announcement& who);
  // A message of a rank. False if it does not speak our language.
  bool Handle(size_t connection, absl::string_view frame);
  void Disconnected(size_t connection);
  // Somebody was not let in; `whom` is for a line on standard error, of which there are few.
  void TurnedAway(const std::string& whom);
  // All ranks have come.
  bool started() const { return started_; }

  // When CheckTimeouts may have something to find; none: never, unless something happens first.
  std::optional<Clock::time_point> NextTimeout() const;
  void CheckTimeouts(Clock::time_point now);

  // Frames to be sent, each with its connection, in order.
  std::vector<std::pair<size_t, std::string>> TakeOutput();

 private:
  // A ledger, since when somebody waits in it, and who was first.
  struct Watched {
    CallLedger ledger;
    std::optional<Clock::time_point> since = std::nullopt;
    int first = 0;

    // `rank` makes its next call. True if that completes it; the world's error if it is broken.
    absl::StatusOr<bool> Arrive(int rank, const CollectiveCall& call);
    // The same of one of its calls on the host, which it waits for.
    bool ArriveOnHost(absl::string_view operation, int rank);
  };
  struct Group {
    Group(std::shared_ptr<WorldState> world, uint32_t group_id, std::vector<int> ranks,
          const std::string& name);
    const uint32_t id;
    const std::vector<int> world_ranks;
    Watched calls;
    Watched splits;
    Watched meetings;
    std::array<Watched*, 3> watched() { return {&calls, &splits, &meetings}; }
    // Calls of ranks that run ahead, which arrive when their earlier ones are complete.
    std::vector<std::deque<CollectiveCall>> ahead;
    std::vector<SplitRequest> requests;
    uint64_t announced = 0;  // calls that the ranks know to be agreed
  };

  // A message about a group that the rank is in.
  bool HandleInGroup(MessageType type, int world_rank, WireReader& reader);
  void Call(Group& group, int rank, const CollectiveCall& call);
  bool Put(WireReader& reader);
  bool Get(size_t connection, WireReader& reader);

  void CreateGroup(std::vector<int> world_ranks);
  // The group and the rank's place in it; null if it is no member.
  Group* Find(uint32_t id, int world_rank, int* rank);
  // Lets `rank` arrive at what it has called, and with it all whose turn that makes it.
  void ArriveAtTurn(Group& group, int rank);
  void SendToGroup(const Group& group, const WireWriter& message);
  void AssignSeats(Group& group);
  void Returned(int rank, const absl::Status& status);
  // Says whatever follows from what has happened: that the world is broken, or over.
  void Settle();
  void RefuseAll(const absl::Status& reason);
  void Send(size_t connection, const WireWriter& message);
  void SendToAll(const WireWriter& message);
  std::optional<int> RankOf(size_t connection) const;

  const Coordinator::Options options_;
  const int port_;
  const Clock::time_point start_;
  const std::shared_ptr<WorldState> world_;
  std::map<uint32_t, std::unique_ptr<Group>> groups_;
  uint32_t next_group_ = kWorldGroup;
  std::vector<std::optional<size_t>> connection_of_rank_;
  std::vector<bool> has_returned_;
  std::vector<std::string> last_call_;  // by rank
  int joined_ = 0;
  bool started_ = false;
  absl::Status refused_;
  int turned_away_ = 0;
  std::string last_turned_away_;
  std::optional<Clock::time_point> broken_since_;
  bool over_ = false;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<size_t>> waiting_for_value_;
  std::vector<std::pair<size_t, std::string>> output_;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PROCESS_COORDINATOR_WORLD_H_
