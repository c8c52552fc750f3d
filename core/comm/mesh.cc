// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/mesh.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// "replicate 2 x shard 4".
std::string Describe(const std::vector<MeshAxis>& axes) {
  return absl::StrJoin(axes, " x ", [](std::string* out, const MeshAxis& axis) {
    absl::StrAppend(out, axis.name, " ", axis.size);
  });
}

// Returns the world ranks along these axes from this rank, in the order of Mesh::index.
std::vector<int> RanksAlong(Mesh& mesh, const Mesh::Axes& axes) {
  std::vector<int> ranks = {0};
  int own = 0;
  for (const int axis : axes) {
    const auto at = static_cast<size_t>(axis);
    int stride = 1;
    for (size_t i = at + 1; i < mesh.axes().size(); ++i) stride *= mesh.axes()[i].size;
    own += mesh.index({axis}) * stride;
    std::vector<int> longer;
    for (const int rank : ranks) {
      for (int i = 0; i < mesh.axes()[at].size; ++i) longer.push_back(rank + i * stride);
    }
    ranks = std::move(longer);
  }
  for (int& rank : ranks) rank += mesh.world().rank() - own;
  return ranks;
}

}  // namespace

Mesh::Mesh(Communicator& world, std::vector<MeshAxis> axes)
    : world_(&world), axes_(std::move(axes)), coordinates_(axes_.size()) {
  int rest = world.rank();
  for (size_t i = axes_.size(); i-- > 0;) {
    coordinates_[i] = rest % axes_[i].size;
    rest /= axes_[i].size;
  }
}

absl::StatusOr<std::unique_ptr<Mesh>> Mesh::Create(Communicator& world,
                                                   std::vector<MeshAxis> axes) {
  std::set<std::string> names;
  int64_t ranks = 1;
  for (const MeshAxis& axis : axes) {
    if (axis.name.empty() || !names.insert(axis.name).second) {
      return InvalidArgument("mesh ", Describe(axes), ": expected axes with names that differ");
    }
    if (axis.size < 1) {
      return InvalidArgument("mesh ", Describe(axes), ": axis '", axis.name, "' has ", axis.size,
                             " ranks, expected at least 1");
    }
    ranks *= axis.size;
  }
  if (ranks != world.size()) {
    return InvalidArgument("mesh ", Describe(axes), " has ", ranks, " ranks, but the world has ",
                           world.size(), "; expected sizes that multiply to that");
  }
  return std::unique_ptr<Mesh>(new Mesh(world, std::move(axes)));
}

absl::StatusOr<Mesh::Axes> Mesh::Find(absl::Span<const std::string> names) const {
  Axes found;
  for (const std::string& name : names) {
    const auto axis = std::find_if(axes_.begin(), axes_.end(),
                                   [&](const MeshAxis& known) { return known.name == name; });
    if (axis == axes_.end()) {
      return InvalidArgument("unknown axis '", name, "'; the mesh is ", Describe(axes_));
    }
    const int position = static_cast<int>(axis - axes_.begin());
    if (std::count(found.begin(), found.end(), position) > 0) {
      return InvalidArgument("axis '", name, "' is named twice");
    }
    found.push_back(position);
  }
  if (found.empty()) return found;
  const auto [first, last] = std::minmax_element(found.begin(), found.end());
  if (*last - *first + 1 == static_cast<int>(found.size())) return found;
  return InvalidArgument("axes ", absl::StrJoin(names, ", "), " are not adjacent in the mesh ",
                         Describe(axes_), "; add the axes between them, or name fewer");
}

Mesh::Axes Mesh::AllBut(const Axes& axes) const {
  Axes others;
  for (int i = 0; i < static_cast<int>(axes_.size()); ++i) {
    if (std::count(axes.begin(), axes.end(), i) == 0) others.push_back(i);
  }
  return others;
}

int Mesh::size(const Axes& axes) const {
  int size = 1;
  for (const int axis : axes) size *= axes_[static_cast<size_t>(axis)].size;
  return size;
}

int Mesh::index(const Axes& axes) const {
  int index = 0;
  for (const int axis : axes) {
    const auto at = static_cast<size_t>(axis);
    index = index * axes_[at].size + coordinates_[at];
  }
  return index;
}

absl::StatusOr<Communicator*> Mesh::Group(const Axes& axes, Traffic traffic) {
  Axes key;
  for (const int axis : axes) {
    if (axes_[static_cast<size_t>(axis)].size > 1) key.push_back(axis);
  }
  // A group of one rank makes no calls, so the traffic makes no difference.
  if (key.empty()) traffic = Traffic::kReduce;
  Communicator*& group = group_of_[{key, traffic}];
  if (group != nullptr) return group;
  ZEROTH_ASSIGN_OR_RETURN(
      std::unique_ptr<Communicator> made,
      world_->SplitInto(RanksAlong(*this, key), index(AllBut(key)), traffic == Traffic::kGather));
  // The timeline was set on the groups that existed then; later groups copy it from the first.
  if (!groups_.empty()) made->stats().set_timeline(groups_.front()->stats().timeline());
  groups_.push_back(std::move(made));
  group = groups_.back().get();
  return group;
}

std::vector<Communicator*> Mesh::communicators() const {
  std::vector<Communicator*> all;
  for (const auto& group : groups_) all.push_back(group.get());
  return all;
}

absl::StatusOr<std::unique_ptr<MeshView>> MeshView::Create(Mesh& mesh, Mesh::Axes replicated,
                                                           Mesh::Axes sharded,
                                                           bool owners_over_groups) {
  std::unique_ptr<MeshView> view(new MeshView());
  // Keeps the mesh's order of axes. So if these axes are adjacent, sums have the bits of sums
  // inside the shard groups and then across them.
  Mesh::Axes all = replicated;
  all.insert(all.end(), sharded.begin(), sharded.end());
  std::sort(all.begin(), all.end());
  ZEROTH_ASSIGN_OR_RETURN(view->shard_gather_, mesh.Group(sharded, Traffic::kGather));
  ZEROTH_ASSIGN_OR_RETURN(view->shard_reduce_, mesh.Group(sharded, Traffic::kReduce));
  const bool spans = owners_over_groups && mesh.size(replicated) > 1;
  const bool owns_all = mesh.size(sharded) == 1 && !spans;
  ZEROTH_ASSIGN_OR_RETURN(
      view->replicate_reduce_,
      mesh.Group(replicated, owns_all ? Traffic::kReduce : Traffic::kReduceAcross));
  ZEROTH_ASSIGN_OR_RETURN(view->data_reduce_, mesh.Group(all, Traffic::kReduce));
  view->owner_axes_ = std::move(sharded);
  view->owner_gather_ = view->shard_gather_;
  if (!spans) return view;
  view->owner_axes_.insert(view->owner_axes_.end(), replicated.begin(), replicated.end());
  ZEROTH_ASSIGN_OR_RETURN(view->replicate_gather_, mesh.Group(replicated, Traffic::kGatherAcross));
  ZEROTH_ASSIGN_OR_RETURN(view->owner_gather_,
                          mesh.Group(view->owner_axes_, Traffic::kGatherAcross));
  return view;
}

Communicator& MeshView::replicate_gather() const {
  ZEROTH_CHECK(owners_span_groups());
  return *replicate_gather_;
}

}  // namespace zeroth
