// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_COMM_LOCAL_LOCAL_GROUP_H_
#define ZEROTH_CORE_COMM_LOCAL_LOCAL_GROUP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/local/rendezvous.h"
#include "zeroth/core/comm/split_groups.h"
#include "zeroth/core/comm/world_state.h"

namespace zeroth {

// What the communicators of one group share. Held by each of them and by their calls that streams
// have yet to run.
class LocalGroup {
 public:
  // One rank's seat in a group; no group for a rank that joined none.
  struct Seat {
    std::shared_ptr<LocalGroup> group;
    int rank = 0;
  };

  // The group of all ranks of `world`.
  static std::shared_ptr<LocalGroup> CreateWorldGroup(std::shared_ptr<WorldState> world);
  // For make_shared. The world's mutex must be held.
  LocalGroup(std::shared_ptr<WorldState> world, std::vector<int> world_ranks);

  WorldState& world() { return *world_; }
  int size() const { return static_cast<int>(world_ranks_.size()); }
  int world_rank(int rank) const { return world_ranks_[static_cast<size_t>(rank)]; }
  const std::string& name() const { return name_; }
  // Where collectives meet, on stream threads.
  Rendezvous& calls() { return calls_; }
  // When `rank`'s share of the call that the group is in is done, on devices where the host runs
  // ahead. Each rank sets its own between Arrive and Finish; all may read them from then until they
  // arrive at the next call.
  std::shared_ptr<Event>& share_done(int rank) { return share_done_[static_cast<size_t>(rank)]; }

  // See Communicator::Split. Blocks until all ranks of the group have called it.
  absl::StatusOr<Seat> Split(int rank, int color, int key);
  // `rank`'s communicator is gone.
  void Leave(int rank);

 private:
  // Turns everybody's request into a seat.
  void AssignSeatsLocked();

  const std::shared_ptr<WorldState> world_;
  const std::vector<int> world_ranks_;
  const std::string name_;
  Rendezvous calls_;
  std::vector<std::shared_ptr<Event>> share_done_;
  // Splits meet apart from collectives: they happen at once, whatever streams have still to run.
  Rendezvous splits_;
  std::vector<SplitRequest> requests_;
  std::vector<Seat> seats_;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_LOCAL_LOCAL_GROUP_H_
