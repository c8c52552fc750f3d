// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One rank of a world of any size, without the others: calls are counted, and noted on their stream
// with the time that they would take.

#ifndef ZEROTH_CORE_COMM_PLANNED_PLANNED_COMMUNICATOR_H_
#define ZEROTH_CORE_COMM_PLANNED_PLANNED_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/checked_communicator.h"
#include "zeroth/core/comm/known_groups.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/core/device/planned/machine.h"

namespace zeroth {

// How a call's time is made: all ranks do the same at the same time, so that each has its share of
// what its node has. A ring sends CollectiveBytes through each rank's link. Where the group spans
// nodes, as much crosses the edge of each node, through the network cards of those of its devices
// that are in the group. A ring takes the latency of each of its steps (NCCL's model of a ring, in
// its graph/tuning.cc); an all-reduce and a broadcast may go along a tree instead, where that is
// shorter. On CPUs, whose ranks copy each other's memory, a call occupies the rank's cores.
class PlannedCommunicator final : public CheckedCommunicator, public KnowsGroups {
 public:
  struct Options {
    // LaunchOptions::reduction on GPUs: "tree" takes staging, and a pass over it.
    bool tree_reduction = false;
    // All-gathers and reduce-scatters have buffers of their own, which gathered parameters are
    // copied out of and gradients into.
    bool copies_in_and_out = false;
  };

  // Rank `rank` of a world of `size` ranks, which fill nodes of the machine one after the other.
  static absl::StatusOr<std::unique_ptr<PlannedCommunicator>> CreateWorld(const Machine& machine,
                                                                          int size, int rank,
                                                                          const Options& options);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::string name() const override;
  // Of everybody in this group: whom else there is only SplitKnown can know.
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  absl::StatusOr<std::unique_ptr<Communicator>> SplitKnown(absl::Span<const int> members) override;
  absl::Status status() const override { return status_; }
  // The group's, in its order.
  const std::vector<int>& world_ranks() const { return members_; }

  // Seconds of a call on its own, of which `latency` passes whoever else sends.
  struct Time {
    double seconds = 0;
    double latency = 0;
    bool crosses_nodes = false;
  };
  Time TimeOf(const Collective& collective) const;

 private:
  PlannedCommunicator(const Machine& machine, std::vector<int> members, int rank,
                      const Options& options);

  absl::Status Enqueue(Collective collective, const absl::Status& checked, Stream& stream) override;
  int world_rank() const override { return members_[static_cast<size_t>(rank_)]; }
  void Break(const absl::Status& reason) override { status_.Update(reason); }
  // Memory and passes over it that the options add, before and after the collective itself.
  absl::Status Before(const Collective& collective, Stream& stream);
  void After(const Collective& collective, Stream& stream);

  const Machine machine_;
  const std::vector<int> members_;  // ranks of the world
  const int rank_;
  const Options options_;
  int local_ = 0;  // of them, on this rank's node
  int nodes_ = 1;
  std::shared_ptr<Buffer> staging_;        // of the sum over ranks
  std::shared_ptr<Buffer> gather_buffer_;  // of copies
  std::shared_ptr<Buffer> reduce_buffer_;
  absl::Status status_;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PLANNED_PLANNED_COMMUNICATOR_H_
