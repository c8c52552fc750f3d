// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The ranks of a world as a grid with named axes, and what that grid is to what is sharded over
// some of its axes.

#ifndef ZEROTH_CORE_COMM_MESH_H_
#define ZEROTH_CORE_COMM_MESH_H_

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

// The axes over which ranks have data of their own. Whatever follows the number of data ranks,
// such as seeds and what gradients are divided by, follows the product of these two.
inline constexpr char kReplicateAxis[] = "replicate";
inline constexpr char kShardAxis[] = "shard";

// What the calls of a group are for. Kinds of traffic that must not wait for each other have
// communicators of their own.
enum class Traffic : uint8_t {
  kGather,  // runs beside compute (Communicator::SplitForGathers)
  kReduce,
  kGatherAcross,  // between groups, of what is gathered inside them next
  kReduceAcross,  // between groups, of what was reduced inside them before
  kActivations,   // of layers that several ranks compute together, in the order of compute
};

// The ranks of a world, row-major in the order of the axes: neighbours on the last axis are
// neighbouring ranks (in the usual numbering: on one machine), and the fixed reduction tree over
// the world passes through each run of them. One object per rank; not thread-safe.
class Mesh {
 public:
  // Positions in axes(), as Find returns them. Ranks are numbered along them with the last one
  // innermost, whichever that is: {shard, replicate} are the ranks of {replicate, shard}, in
  // another order.
  using Axes = std::vector<int>;

  // Talks to nobody. `world` outlives the mesh. InvalidArgument if a size is below 1, a name is
  // empty or there twice, or the sizes do not multiply to the size of the world.
  static absl::StatusOr<std::unique_ptr<Mesh>> Create(Communicator& world,
                                                      std::vector<MeshAxis> axes);

  Communicator& world() { return *world_; }
  const std::vector<MeshAxis>& axes() const { return axes_; }

  // Axes by name. InvalidArgument names an unknown axis and lists those there are, an axis that is
  // named twice, or axes that are no neighbours in axes(), between which there is another.
  absl::StatusOr<Axes> Find(absl::Span<const std::string> names) const;
  // All but these, in the order of axes().
  Axes AllBut(const Axes& axes) const;

  // Ranks along the product of these axes, and this rank's place among them. 1 and 0 of no axes.
  int size(const Axes& axes) const;
  int index(const Axes& axes) const;

  // The ranks along the product of these axes from this one, in the order of index(axes). Made when
  // it is first asked for, which is collective: all ranks ask for the same groups in the same
  // order. Axes of one rank make no difference to which group it is. The mesh owns the result.
  absl::StatusOr<Communicator*> Group(const Axes& axes, Traffic traffic);
  // Those that have been made, in that order, but not world().
  std::vector<Communicator*> communicators() const;

 private:
  Mesh(Communicator& world, std::vector<MeshAxis> axes);

  Communicator* world_;
  std::vector<MeshAxis> axes_;
  std::vector<int> coordinates_;  // this rank's, by axis
  std::vector<std::unique_ptr<Communicator>> groups_;
  std::map<std::pair<Axes, Traffic>, Communicator*> group_of_;
};

// What a mesh is to something that is sharded over some of its axes and replicated over others: its
// groups by their parts.
//
// What the optimizer reads and writes is divided among the owners: by default the ranks of a shard
// group, every group having all of it; or the ranks of all groups (Megatron-FSDP's hybrid FSDP).
// Then a rank owns piece shard_index * replicate_size + replicate_index, so that the pieces of the
// ranks with one shard index, one of each group, lie side by side and are together a group's piece
// of that index. Immutable.
class MeshView {
 public:
  // Collective, as Mesh::Group. The axes are without those of the other list. The mesh outlives the
  // view. `owners_over_groups`: the owners are all ranks, which with one group is no difference.
  static absl::StatusOr<std::unique_ptr<MeshView>> Create(Mesh& mesh, Mesh::Axes replicated,
                                                          Mesh::Axes sharded,
                                                          bool owners_over_groups = false);

  // Ranks in a shard group, and shard groups; this rank's place in and among them.
  int shard_size() const { return shard_gather_->size(); }
  int replicate_size() const { return replicate_reduce_->size(); }
  int shard_index() const { return shard_gather_->rank(); }
  int replicate_index() const { return replicate_reduce_->rank(); }
  // Ranks of all groups.
  int data_size() const { return shard_size() * replicate_size(); }

  // This rank's shard group: for gathers, and for reductions.
  Communicator& shard_gather() const { return *shard_gather_; }
  Communicator& shard_reduce() const { return *shard_reduce_; }
  // The ranks with this rank's shard index, one of each group: for reductions across groups.
  Communicator& replicate_reduce() const { return *replicate_reduce_; }
  // The ranks of all groups: for reductions of replicated gradients.
  Communicator& data_reduce() const { return *data_reduce_; }

  // True if the owners are all ranks and there is more than one group.
  bool owners_span_groups() const { return replicate_gather_ != nullptr; }
  // The axes over which owners' pieces differ, in the order of their pieces.
  const Mesh::Axes& owner_axes() const { return owner_axes_; }
  int owner_count() const { return owner_gather_->size(); }
  int owner_index() const { return owner_gather_->rank(); }  // this rank's piece
  // The owners of all pieces in order, this rank's own copy of each: for gathers.
  Communicator& owner_gather() const { return *owner_gather_; }
  // The ranks of replicate_reduce(), for gathers across groups. Only if owners span groups.
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

#endif  // ZEROTH_CORE_COMM_MESH_H_
