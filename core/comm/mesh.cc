// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/mesh.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

absl::Status CheckShardSize(int shard_size, int world_size) {
  if (shard_size > 0 && world_size % shard_size == 0) return absl::OkStatus();
  std::vector<int> divisors;
  for (int size = 1; size <= world_size; ++size) {
    if (world_size % size == 0) divisors.push_back(size);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("shard_size ", shard_size, " does not divide a world of ", world_size,
                   world_size == 1 ? " rank" : " ranks",
                   "; possible: ", absl::StrJoin(divisors, ", "), ", or 0 for all ranks"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mesh>> Mesh::Create(Communicator& world, int shard_size,
                                                   bool owners_over_world) {
  if (shard_size == 0) shard_size = world.size();
  ZEROTH_RETURN_IF_ERROR(CheckShardSize(shard_size, world.size()));

  std::unique_ptr<Mesh> mesh(new Mesh());
  mesh->world_ = &world;
  mesh->shard_size_ = shard_size;
  mesh->replicate_size_ = world.size() / shard_size;
  mesh->shard_index_ = world.rank() % shard_size;
  mesh->replicate_index_ = world.rank() / shard_size;

  ZEROTH_ASSIGN_OR_RETURN(mesh->shard_gather_,
                          world.SplitForGathers(mesh->replicate_index_, mesh->shard_index_));
  ZEROTH_ASSIGN_OR_RETURN(mesh->shard_reduce_,
                          world.Split(mesh->replicate_index_, mesh->shard_index_));
  ZEROTH_ASSIGN_OR_RETURN(mesh->replicate_reduce_,
                          world.Split(mesh->shard_index_, mesh->replicate_index_));
  ZEROTH_ASSIGN_OR_RETURN(mesh->world_reduce_, world.Duplicate());
  if (!owners_over_world || mesh->replicate_size_ == 1) return mesh;
  ZEROTH_ASSIGN_OR_RETURN(mesh->replicate_gather_,
                          world.Split(mesh->shard_index_, mesh->replicate_index_));
  const int piece = mesh->shard_index_ * mesh->replicate_size_ + mesh->replicate_index_;
  ZEROTH_ASSIGN_OR_RETURN(mesh->owner_gather_, world.Split(0, piece));
  return mesh;
}

Communicator& Mesh::replicate_gather() {
  ZEROTH_CHECK(owners_span_groups());
  return *replicate_gather_;
}

std::vector<Communicator*> Mesh::communicators() const {
  std::vector<Communicator*> all;
  for (const auto* group : {&shard_gather_, &shard_reduce_, &replicate_reduce_, &world_reduce_,
                            &replicate_gather_, &owner_gather_}) {
    if (*group != nullptr) all.push_back(group->get());
  }
  return all;
}

}  // namespace zeroth
