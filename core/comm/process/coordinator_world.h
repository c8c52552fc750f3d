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
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
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

// Connections are known by number. Not thread-safe. A message takes constant time, apart from the
// answers that it sends, so that a call of n ranks takes time O(n).
class CoordinatorWorld {
 public:
  using Clock = std::chrono::steady_clock;

  // `port` is for messages.
  CoordinatorWorld(const Coordinator::Options& options, int port);

  // Adds the rank of a connection that has passed the handshake. Returns the reason why it may not
  // join. If the job has an id or a secret, the rank is certainly of this job, so all ranks are
  // refused for the same reason. Otherwise it may be of another job, and the ranks of this job keep
  // waiting.
  absl::Status Join(size_t connection, const RankIdentity& who);
  // Handles a rank's message that came at `now`. Returns false if the message breaks the protocol.
  bool Handle(size_t connection, absl::string_view frame, Clock::time_point now = Clock::now());
  void Disconnected(size_t connection);
  // Prints to standard error that `whom` was turned away. Only the first few get a line.
  void ReportRejected(const std::string& whom);
  // True once all ranks have joined.
  bool started() const { return started_; }

  // Returns when CheckTimeouts has to be called next; std::nullopt: not before the next message.
  std::optional<Clock::time_point> NextTimeout() const;
  void CheckTimeouts(Clock::time_point now);

  // A message, and the connections to send it to.
  struct Output {
    std::vector<size_t> connections;
    std::string message;
  };
  // Returns the messages to send, in order. They include the numbers of agreed calls that ranks
  // wait for, so it is called after all messages that have arrived were handled.
  std::vector<Output> TakeOutput();
  // Returns the number of groups that some rank has not left.
  size_t group_count() const { return group_count_; }

 private:
  // A ledger, and since when a rank waits in it.
  struct TimedLedger {
    CallLedger ledger;
    std::optional<Clock::time_point> since = std::nullopt;
  };
  struct Group {
    Group(std::shared_ptr<WorldState> world, uint32_t group_id, std::vector<int> ranks,
          const std::string& group_name);
    const uint32_t id;
    const std::shared_ptr<const std::string> name;
    const std::vector<int> world_ranks;
    TimedLedger calls;
    TimedLedger splits;
    TimedLedger meetings;
    std::array<TimedLedger*, 3> ledgers() { return {&calls, &splits, &meetings}; }
    // Calls that were posted early, by rank. They arrive when the rank's earlier calls are
    // complete.
    std::vector<std::deque<SharedCall>> ahead;
    // The calls from number `first_posted` on, as the first rank to post each one encoded it. Ranks
    // usually post the same bytes, which are then decoded and kept once.
    struct Posted {
      std::string bytes;
      SharedCall call;
    };
    std::deque<Posted> posted;
    uint64_t first_posted = 0;
    std::vector<SplitRequest> requests;  // by rank, of the next split
    std::vector<std::string> values;     // by rank, of the next meeting
    uint64_t announced = 0;              // the number of agreed calls that ranks were told last
    std::set<uint64_t> awaited;          // the numbers beyond it that ranks wait for
    bool is_due = false;                 // is in due_
    bool is_put_off = false;             // is in put_off_
  };

  // Handles a message about a group that the rank is in.
  bool HandleInGroup(MessageType type, int world_rank, WireReader& reader);
  // Decodes the next call of `rank`. Null if the bytes are not one.
  static SharedCall Decode(Group& group, int rank, absl::string_view bytes);
  void Call(Group& group, int rank, bool awaits, const SharedCall& call);
  void Split(Group& group, int rank, const SplitRequest& request);
  void Meet(Group& group, int rank, std::string value);
  void Leave(Group& group, int rank);
  // Records that `rank` makes its next call. Returns whether that completes the call on all ranks,
  // or the world's error.
  absl::StatusOr<bool> Arrive(TimedLedger& timed, int rank, SharedCall call);
  // Like Arrive, for a call that the rank waits for on the host.
  bool ArriveOnHost(TimedLedger& timed, absl::string_view operation, int rank);
  // Schedules a message that tells the group's ranks how many calls are agreed: in the next
  // TakeOutput if a rank waits for it, otherwise within kPutOffTime.
  void AnnounceLater(Group& group);
  void Announce(Group& group);
  void AnnounceAll(std::vector<uint32_t>& groups);

  void CreateGroup(std::vector<int> world_ranks);
  Group* GroupOf(uint32_t id) { return id < groups_.size() ? groups_[id].get() : nullptr; }
  // Returns the group and sets `rank` to the rank's place in it. Null if it is not a member.
  Group* Find(uint32_t id, int world_rank, int* rank);
  // `first` arrives at `call`. If that completes it, the ranks that have posted their next call
  // arrive at that.
  void ArriveAtTurn(Group& group, int first, const SharedCall& call);
  void SendToGroup(const Group& group, std::string message);
  void AssignSeats(Group& group);
  // Tells the ranks if the world has broken, or if all of them have returned.
  void Settle();
  // Breaks the world if a rank has waited for too long.
  void TimeOutWaits(Clock::time_point now);
  // Returns text for a timeout's message that names the ranks whose last message is so old that
  // their processes cannot be running; empty if there are none. A waiting rank may be unable to
  // name them: it sees only a transfer that does not end, or a missing rank that is waiting too.
  std::string DescribeSilentRanks(Clock::time_point now) const;
  // Adds that text to a timeout that breaks the world.
  absl::Status WithSilentRanks(const absl::Status& status, Clock::time_point now) const;
  void RefuseAll(const absl::Status& reason);
  void Send(size_t connection, const WireWriter& message);
  void SendToAll(const WireWriter& message);
  std::optional<int> RankOf(size_t connection) const;

  const Coordinator::Options options_;
  const int port_;
  const std::chrono::nanoseconds limit_;  // the timeout
  const Clock::time_point start_;
  const std::shared_ptr<WorldState> world_;
  // The groups by number. Null: all ranks have left the group.
  std::vector<std::unique_ptr<Group>> groups_;
  size_t group_count_ = 0;
  std::vector<std::unique_ptr<Group>> left_;  // to be destroyed without the world's mutex
  std::vector<uint32_t> due_;                 // groups to announce when output is taken
  std::vector<uint32_t> put_off_;             // and at put_off_until_ at the latest
  Clock::time_point put_off_until_;
  // No rank's wait times out before this time. Set while a rank waits; may be too early, and is
  // computed anew then.
  std::optional<Clock::time_point> no_timeout_before_;
  std::vector<std::optional<size_t>> connection_of_rank_;
  std::unordered_map<size_t, int> rank_of_connection_;
  struct LastCall {
    SharedCall call;  // null: none yet
    std::shared_ptr<const std::string> group_name;
  };
  std::vector<LastCall> last_call_;              // by rank
  std::vector<Clock::time_point> last_message_;  // by rank: when it came
  bool started_ = false;
  absl::Status refused_;
  int turned_away_ = 0;
  std::string last_turned_away_;
  std::optional<Clock::time_point> broken_since_;
  bool over_ = false;
  std::vector<Output> output_;
};

}  // namespace zeroth
