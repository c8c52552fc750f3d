// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A communicator for plans: one rank of a world of any size, without the other ranks. It counts
// calls, and records each on its stream with the time that it would take.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/checked_communicator.h"
#include "zeroth/core/comm/two_level.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/core/device/planned/machine.h"

namespace zeroth {

// Computes the time of a call. It assumes that all ranks make the call at the same time and share
// the links of their node equally:
// - A ring sends CollectiveBytes through each rank's link. If the group spans nodes, as many bytes
//   leave each node, over the NICs of its devices in the group. The ring pays the latency of each
//   of its steps (NCCL's model, in its graph/tuning.cc).
// - An all-reduce and a broadcast use a tree instead if its latency is lower.
// - In an exchange, each rank sends its pieces to their receivers through its own NIC.
// - A reduction in two levels (two_level.h) sends a piece for each rank over the links of the node,
//   and a sum for each other node through the rank's own NIC.
// - On CPUs, ranks copy each other's memory, and a call occupies the rank's cores.
class PlannedCommunicator final : public CheckedCommunicator {
 public:
  // How another system issues what is one collective here, over the same bytes.
  struct Parts {
    double collectives = 1;  // below 1: batched with other calls
    // Elements of the largest of these collectives, for which the copy buffer has room.
    int64_t elements = std::numeric_limits<int64_t>::max();
  };
  struct Options {
    // LaunchOptions::reduction on GPUs. The tree needs scratch memory for what the other ranks
    // send, and a pass over it. NCCL's reduction needs scratch memory for a sum that is added to
    // its destination or has another dtype, and a pass for that and for a mean.
    enum class Reduction { kWithoutScratch, kTree, kLibrary };
    Reduction reduction = Reduction::kWithoutScratch;
    // Reductions as LaunchOptions::reduction "tree" makes them: in two levels if the group consists
    // of whole nodes (RanksPerNode), and otherwise in one exchange of all pieces. An all-reduce
    // then gathers the sums in a ring.
    bool reduces_by_exchange = false;
    // All-gathers inside a node occupy no SMs (LaunchOptions::nccl_copy_engine).
    bool gathers_by_copy_engine = false;
    // AllGatherAll and ReduceScatterAll issue their calls as one operation, with the latency of one
    // call and with staging for all calls. Not with copy engines.
    bool calls_together = false;
    // All-gathers and reduce-scatters use separate buffers: gathered parameters are copied out of
    // them, and gradients into them.
    bool copies_in_and_out = false;
    // Elements of the bucket that collects gradients. It stays allocated, and a copy of it is
    // reduced. 0: each unit has a buffer of its size.
    int64_t reduce_bucket = 0;
    // Called for collectives of several ranks. Empty: each is one collective.
    std::function<Parts(const Collective& collective)> parts;
  };

  // Rank `rank` of a world of `size` ranks, which fill nodes of the machine one after the other.
  static absl::StatusOr<std::unique_ptr<PlannedCommunicator>> CreateWorld(const Machine& machine,
                                                                          int size, int rank,
                                                                          const Options& options);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::string name() const override;
  // Returns a group of all ranks of this one, because only SplitInto tells who the members are.
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  absl::StatusOr<std::unique_ptr<Communicator>> SplitInto(absl::Span<const int> members, int color,
                                                          bool for_gathers) override;
  absl::Status status() const override { return status_; }
  // The group's world ranks, in its order.
  const std::vector<int>& world_ranks() const { return members_; }

  // The time of a call that shares its link with no other.
  struct Time {
    double seconds = 0;
    double latency = 0;
    bool crosses_nodes = false;
    double bytes_across = 0;  // this rank's share of what its node sends to others
  };
  Time TimeOf(const Collective& collective) const;

 private:
  PlannedCommunicator(const Machine& machine, std::vector<int> members, int rank,
                      const Options& options);

  absl::Status Enqueue(absl::Span<Collective> collectives, const absl::Status& checked,
                       Stream& stream) override;
  // `starts`: the call is the first of those issued as one operation (Options::calls_together).
  absl::Status EnqueueOne(const Collective& collective, bool starts, Stream& stream);
  double LinkBandwidth(const Collective& collective) const;
  int world_rank() const override { return members_[static_cast<size_t>(rank_)]; }
  void Break(const absl::Status& reason) override { status_.Update(reason); }
  // Returns the bytes of scratch memory that a reduction needs in NcclCommunicator.
  size_t ScratchOf(const Collective& collective) const;
  // Add the memory that the options need, and passes over it, before and after the collective
  // itself.
  absl::Status Before(const Collective& collective, const Parts& parts, bool starts,
                      Stream& stream);
  void After(const Collective& collective, Stream& stream);

  const Machine machine_;
  const std::vector<int> members_;  // ranks of the world
  const int rank_;
  const Options options_;
  int local_ = 0;  // members on this rank's node
  int nodes_ = 1;
  NodeGrid grid_;                          // divided if reductions have two levels
  std::shared_ptr<Buffer> staging_;        // scratch memory of reductions
  size_t staged_bytes_ = 0;                // what the operation's calls have needed so far
  std::shared_ptr<Buffer> gather_buffer_;  // for copies in and out
  std::shared_ptr<Buffer> reduce_buffer_;
  std::shared_ptr<Buffer> reduce_bucket_;
  absl::Status status_;
};

}  // namespace zeroth
