// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_COMM_MESH_H_
#define ZEROTH_CORE_COMM_MESH_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// The ranks of a world as a grid [replicate, shard], row-major: rank = replicate_index * shard_size
// + shard_index, so a shard group is a run of neighbouring ranks (in the usual numbering: one
// machine) and the fixed reduction tree over the world passes through it. Each axis has a
// communicator for every kind of traffic that must not wait for another (gathers, reductions); an
// axis of size 1 has communicators of size 1, on which strategies issue no call. One object per
// rank; not thread-safe.
//
// What the optimizer reads and writes is cut among the owners: by default the ranks of a shard
// group, every group having all of it; or all ranks (Megatron-FSDP's hybrid FSDP). Then a rank owns
// piece shard_index * replicate_size + replicate_index, so that the pieces of the ranks with one
// shard index, one of each group, lie side by side and are together a group's piece of that index.
class Mesh {
 public:
  // Collective over `world`, which must outlive the mesh. shard_size ranks per shard group; 0 means
  // all of them. InvalidArgument, the same on every rank, if shard_size is negative or does not
  // divide the world size: the message lists the sizes that do. `owners_over_world`: all ranks own,
  // which with one group is no difference.
  static absl::StatusOr<std::unique_ptr<Mesh>> Create(Communicator& world, int shard_size,
                                                      bool owners_over_world = false);

  Communicator& world() { return *world_; }
  int shard_size() const { return shard_size_; }
  int replicate_size() const { return replicate_size_; }
  // This rank's place on each axis.
  int shard_index() const { return shard_index_; }
  int replicate_index() const { return replicate_index_; }

  // This rank's shard group: for gathers, and for reductions.
  Communicator& shard_gather() { return *shard_gather_; }
  Communicator& shard_reduce() { return *shard_reduce_; }
  // The ranks with this rank's shard index, one of each group: for reductions across groups.
  Communicator& replicate_reduce() { return *replicate_reduce_; }
  // All ranks: for reductions of whole gradients. Its order is independent of world()'s.
  Communicator& world_reduce() { return *world_reduce_; }

  // True if the owners are all ranks and there is more than one group.
  bool owners_span_groups() const { return owner_gather_ != nullptr; }
  int owner_count() const { return owners_span_groups() ? world_->size() : shard_size_; }
  // This rank's piece.
  int owner_index() const {
    return owners_span_groups() ? shard_index_ * replicate_size_ + replicate_index_ : shard_index_;
  }
  // Ranks that own the same piece, and which of them this is.
  int owner_copies() const { return owners_span_groups() ? 1 : replicate_size_; }
  int owner_copy() const { return owners_span_groups() ? 0 : replicate_index_; }
  // The owners of all pieces in order, this rank's own copy of each: for gathers.
  Communicator& owner_gather() { return owners_span_groups() ? *owner_gather_ : *shard_gather_; }
  // The same ranks in any order: for reductions that all of them get.
  Communicator& owner_reduce() { return owners_span_groups() ? *world_reduce_ : *shard_reduce_; }
  // The ranks of replicate_reduce(): for gathers across groups. Only if owners span groups.
  Communicator& replicate_gather();

  // All of the above but world(), each once.
  std::vector<Communicator*> communicators() const;

 private:
  Mesh() = default;

  Communicator* world_ = nullptr;
  int shard_size_ = 1;
  int replicate_size_ = 1;
  int shard_index_ = 0;
  int replicate_index_ = 0;
  std::unique_ptr<Communicator> shard_gather_;
  std::unique_ptr<Communicator> shard_reduce_;
  std::unique_ptr<Communicator> replicate_reduce_;
  std::unique_ptr<Communicator> world_reduce_;
  // Only if owners span groups.
  std::unique_ptr<Communicator> replicate_gather_;
  std::unique_ptr<Communicator> owner_gather_;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_MESH_H_
