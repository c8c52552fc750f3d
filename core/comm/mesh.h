// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_COMM_MESH_H_
#define ZEROTH_CORE_COMM_MESH_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// The ranks of a world as a grid [replicate, shard], row-major: rank = replicate_index * shard_size
// + shard_index, so a shard group is a run of neighbouring ranks (in the usual numbering: one
// machine) and the fixed reduction tree over the world passes through it. Each axis has a
// communicator for every kind of traffic that must not wait for another (gathers, reductions); an
// axis of size 1 has communicators of size 1, on which strategies issue no call. One object per
// rank; not thread-safe.
class Mesh {
 public:
  // Collective over `world`, which must outlive the mesh. shard_size ranks per shard group; 0 means
  // all of them. InvalidArgument, the same on every rank, if shard_size is negative or does not
  // divide the world size: the message lists the sizes that do.
  static absl::StatusOr<std::unique_ptr<Mesh>> Create(Communicator& world, int shard_size);

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
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_MESH_H_
