// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The coordinator's state and its decisions: it consumes and produces messages. Coordinator has the
// sockets.

#pragma once

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
#include "zeroth/core/comm/world_state.h"

namespace zeroth {

// Connections are known by number. Not thread-safe.
class CoordinatorWorld {
 public:
  using Clock = std::chrono::steady_clock;

  // `port` is for messages.
  CoordinatorWorld(const Coordinator::Options& options, int port);

  // A connection has proven to be a rank of this job. Returns the reason why the rank may not join.
  // If the job has an id or a secret, it certainly is a rank of this job, so all ranks are refused
  // for the same reason. Otherwise it may be a rank of another job, and the others go on waiting.
  absl::Status Join(size_t connection, const Announcement& who);
  // Handles a rank's message. Returns false if the message breaks the protocol.
  bool Handle(size_t connection, absl::string_view frame);
  void Disconnected(size_t connection);
  // Prints to standard error that `whom` was turned away. Only the first few get a line.
  void TurnedAway(const std::string& whom);
  // True once all ranks have joined.
  bool started() const { return started_; }

  // When CheckTimeouts has to be called next. None: not before the next message.
  std::optional<Clock::time_point> NextTimeout() const;
  void CheckTimeouts(Clock::time_point now);

  // Returns the frames to send, each with its connection, in order.
  std::vector<std::pair<size_t, std::string>> TakeOutput();

 private:
  // A ledger, and since when a rank waits in it.
  struct Watched {
    CallLedger ledger;
    std::optional<Clock::time_point> since = std::nullopt;

    // `rank` makes its next call. Returns whether that completes the call on all ranks, or the
    // world's error.
    absl::StatusOr<bool> Arrive(int rank, const CollectiveCall& call);
    // The same for a call that the rank waits for on the host.
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
    // By rank: calls that were posted early. They arrive when the rank's earlier calls are
    // complete.
    std::vector<std::deque<CollectiveCall>> ahead;
    std::vector<SplitRequest> requests;  // by rank, of the next split
    std::vector<std::string> values;     // by rank, of the next meeting
    uint64_t announced = 0;              // the number of agreed calls that ranks were told last
  };

  // Handles a message about a group that the rank is in.
  bool HandleInGroup(MessageType type, int world_rank, WireReader& reader);
  void Call(Group& group, int rank, const CollectiveCall& call);

  void CreateGroup(std::vector<int> world_ranks);
  // Returns the group and sets `rank` to the rank's place in it. Null if it is not a member.
  Group* Find(uint32_t id, int world_rank, int* rank);
  // Lets `rank` arrive at its next call, and then every rank whose earlier call that completes.
  void ArriveAtTurn(Group& group, int rank);
  void SendToGroup(const Group& group, const WireWriter& message);
  void AssignSeats(Group& group);
  // Tells the ranks if the world has broken, or if all of them have returned.
  void Settle();
  void RefuseAll(const absl::Status& reason);
  void Send(size_t connection, const WireWriter& message);
  void SendToAll(const WireWriter& message);
  std::optional<int> RankOf(size_t connection) const;

  const Coordinator::Options options_;
  const int port_;
  const std::chrono::nanoseconds limit_;  // the timeout
  const Clock::time_point start_;
  const std::shared_ptr<WorldState> world_;
  std::map<uint32_t, std::unique_ptr<Group>> groups_;
  uint32_t next_group_ = kWorldGroup;
  std::vector<std::optional<size_t>> connection_of_rank_;
  std::vector<std::string> last_call_;  // by rank
  bool started_ = false;
  absl::Status refused_;
  int turned_away_ = 0;
  std::string last_turned_away_;
  std::optional<Clock::time_point> broken_since_;
  bool over_ = false;
  std::vector<std::pair<size_t, std::string>> output_;
};

}  // namespace zeroth
