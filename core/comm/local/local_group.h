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

// The state that the communicators of one group share. The communicators own it, and so do their
// calls until streams have run them.
class LocalGroup {
 public:
  // One rank's place in a group. `group` is null for a rank that joined none.
  struct Seat {
    std::shared_ptr<LocalGroup> group;
    int rank = 0;
  };

  // The group of all ranks of `world`.
  static std::shared_ptr<LocalGroup> CreateWorldGroup(std::shared_ptr<WorldState> world);
  // For make_shared. The world's mutex must be held.
  LocalGroup(std::shared_ptr<WorldState> world, std::vector<int> world_ranks);

  WorldState& world() { return *world_; }
  int size() const { return calls_.size(); }
  int world_rank(int rank) const { return calls_.world_rank(rank); }
  const std::string& name() const { return calls_.name(); }
  // The rendezvous of collectives.
  Rendezvous& calls() { return calls_; }
  // The event after which `rank`'s share of the current call is done, on devices that run behind
  // the host. Each rank sets its own between Arrive and Finish. All may read them from then until
  // they arrive at the next call.
  std::shared_ptr<Event>& share_done(int rank) { return share_done_[static_cast<size_t>(rank)]; }

  // See Communicator::Split. Blocks until all ranks of the group have called it.
  absl::StatusOr<Seat> Split(int rank, int color, int key);
  // `rank` has destroyed its communicator.
  void Leave(int rank);

 private:
  // Makes the new groups from all ranks' requests.
  void AssignSeatsLocked();

  const std::shared_ptr<WorldState> world_;
  Rendezvous calls_;
  std::vector<std::shared_ptr<Event>> share_done_;
  // Splits have a rendezvous of their own, because they do not wait for calls on streams.
  Rendezvous splits_;
  std::vector<SplitRequest> requests_;
  std::vector<Seat> seats_;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_LOCAL_LOCAL_GROUP_H_
