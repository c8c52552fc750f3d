// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/flat_strategy.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status FlatStrategy::Attach(const StrategyContext& context) {
  mesh_ = context.mesh;
  gathered_ = std::make_unique<FullBuffers>(*context.device, MemoryCategory::kGatheredParameters,
                                            TakesTurns() ? context.gathered : nullptr);
  gradients_ =
      std::make_unique<FullBuffers>(*context.device, MemoryCategory::kGradients, context.gradients);
  return absl::OkStatus();
}

absl::Status FlatStrategy::Gather(Unit& unit, Pass, Stream& comm) {
  return GatherSegments(unit, mesh_->shard_gather(), *gathered_, comm);
}

absl::Status FlatStrategy::Reshard(Unit& unit, Pass pass) {
  if (KeepsGathered(unit, pass)) return unit.ExpectState(UnitState::kGathered, "keep");
  return FreeGathered(unit, *gathered_);
}

absl::Status FlatStrategy::PrepareGradients(Unit& unit) {
  return PrepareFullGradients(unit, *gradients_);
}

absl::Status FlatStrategy::SyncGradients(Unit& unit, Stream& comm) {
  GradientGroups groups;
  groups.shard = &mesh_->shard_reduce();
  groups.replicate = ReducesAcrossGroups() ? &mesh_->replicate_reduce() : nullptr;
  groups.world = &mesh_->world_reduce();
  return ReduceGradients(unit, groups, options_.gradient_op, *gradients_, comm);
}

void FlatStrategy::Abandon(Unit& unit) {
  unit.Abandon();
  gathered_->Release(unit, nullptr);
  gradients_->Release(unit, nullptr);
}

absl::Status FlatStrategy::Trim() {
  absl::Status status = gathered_->Trim();
  status.Update(gradients_->Trim());
  return status;
}

}  // namespace zeroth
