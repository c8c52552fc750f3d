// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The ranks of a world as a grid with named axes (PyTorch's DeviceMesh), and the view of it for
// parameters that are sharded over some of the axes.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/communicator.h"

namespace zeroth {

struct MeshAxis {
  std::string name;
  int size = 1;
};

// The axes over which ranks have different data. Their product is the number of data ranks, on
// which seeds and the gradient divide factor depend.
inline constexpr char kReplicateAxis[] = "replicate";
inline constexpr char kShardAxis[] = "shard";

// The purpose of a group's calls. Kinds of traffic that must not wait for each other have separate
// communicators.
enum class Traffic : uint8_t {
  kGather,  // overlaps with compute (Communicator::SplitForGathers)
  kReduce,
  kGatherAcross,  // gathers between groups, before the gather inside the group
  kReduceAcross,  // reductions between groups, after the reduction inside the group
  kActivations,   // of layers that several ranks compute together, in the order of compute
};

// The ranks of a world, row-major in the order of the axes. Neighbours on the last axis are
// consecutive ranks (usually on one machine), also in the fixed reduction tree over the world. One
// object per rank. Not thread-safe.
class Mesh {
 public:
  // Positions in axes(), as Find returns them. The last one listed is the innermost: {shard,
  // replicate} has the ranks of {replicate, shard} in another order.
  using Axes = std::vector<int>;

  // Does not communicate. `world` must outlive the mesh. InvalidArgument if a size is below 1, a
  // name is empty or occurs twice, or the product of the sizes is not the size of the world.
  static absl::StatusOr<std::unique_ptr<Mesh>> Create(Communicator& world,
                                                      std::vector<MeshAxis> axes);

  Communicator& world() { return *world_; }
  const std::vector<MeshAxis>& axes() const { return axes_; }

  // Finds axes by name. InvalidArgument names an unknown axis and lists the mesh's, or names an
  // axis that occurs twice, or axes that are not adjacent in axes().
  absl::StatusOr<Axes> Find(absl::Span<const std::string> names) const;
  // All axes except these, in the order of axes().
  Axes AllBut(const Axes& axes) const;

  // Return the number of ranks along the product of these axes, and the index of this rank among
  // them; 1 and 0 for no axes.
  int size(const Axes& axes) const;
  int index(const Axes& axes) const;

  // Returns this rank's group along the product of these axes, ordered by index(axes). Creates it
  // on first use, which is collective: all ranks ask for the same groups in the same order. Axes of
  // size 1 are ignored. The mesh owns the result.
  absl::StatusOr<Communicator*> Group(const Axes& axes, Traffic traffic);
  // Returns the groups created so far, in that order, without world().
  std::vector<Communicator*> communicators() const;

 private:
  Mesh(Communicator& world, std::vector<MeshAxis> axes);

  Communicator* world_;
  std::vector<MeshAxis> axes_;
  std::vector<int> coordinates_;  // this rank's, by axis
  std::vector<std::unique_ptr<Communicator>> groups_;
  std::map<std::pair<Axes, Traffic>, Communicator*> group_of_;
};

// The groups of a mesh for parameters that are sharded over some of its axes and replicated over
// others.
//
// The optimizer's state is divided among the owners. By default these are the ranks of a shard
// group, and every group has all of the state. They can also be the ranks of all groups
// (Megatron-FSDP's hybrid FSDP). Then a rank owns piece shard_index * replicate_size +
// replicate_index. So the pieces of the ranks with one shard index, one in each group, are
// adjacent, and together they are the shard of that index. Immutable.
class MeshView {
 public:
  // Collective, as Mesh::Group. No axis may be in both lists. The mesh must outlive the view.
  // `owners_over_groups`: the owners are the ranks of all groups.
  static absl::StatusOr<std::unique_ptr<MeshView>> Create(Mesh& mesh, Mesh::Axes replicated,
                                                          Mesh::Axes sharded,
                                                          bool owners_over_groups = false);

  // The ranks of a shard group, the number of shard groups, and this rank's index in its group and
  // its group's index.
  int shard_size() const { return shard_gather_->size(); }
  int replicate_size() const { return replicate_reduce_->size(); }
  int shard_index() const { return shard_gather_->rank(); }
  int replicate_index() const { return replicate_reduce_->rank(); }
  // The ranks of all groups together.
  int data_parallel_size() const { return shard_size() * replicate_size(); }

  // This rank's shard group, for gathers and for reductions.
  Communicator& shard_gather() const { return *shard_gather_; }
  Communicator& shard_reduce() const { return *shard_reduce_; }
  // The ranks with this rank's shard index, one of each group, for reductions across groups. The
  // same communicator as data_reduce() if every rank owns everything: then nothing is reduced
  // inside a group meanwhile.
  Communicator& replicate_reduce() const { return *replicate_reduce_; }
  // The ranks of all groups, for reductions of gradients of replicated parameters.
  Communicator& data_reduce() const { return *data_reduce_; }

  // True if the owners are the ranks of all groups, and there is more than one group.
  bool owners_span_groups() const { return replicate_gather_ != nullptr; }
  // The axes over which the owners' pieces differ, in the order of the pieces.
  const Mesh::Axes& owner_axes() const { return owner_axes_; }
  int owner_count() const { return owner_gather_->size(); }
  int owner_index() const { return owner_gather_->rank(); }  // this rank's piece
  // The owners of all pieces, in order, for gathers.
  Communicator& owner_gather() const { return *owner_gather_; }
  // The ranks of replicate_reduce(), for gathers across groups. Aborts unless owners span groups.
  Communicator& replicate_gather() const;

 private:
  MeshView() = default;

  Mesh::Axes owner_axes_;
  Communicator* shard_gather_ = nullptr;
  Communicator* shard_reduce_ = nullptr;
  Communicator* replicate_reduce_ = nullptr;
  Communicator* data_reduce_ = nullptr;
  Communicator* owner_gather_ = nullptr;
  Communicator* replicate_gather_ = nullptr;  // only if owners span groups
};

}  // namespace zeroth
