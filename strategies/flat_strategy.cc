// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/flat_strategy.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status FlatStrategy::Attach(const StrategyContext& context) {
  context_ = context;
  gathered_ = std::make_unique<FullBuffers>(*context.device, MemoryCategory::kGatheredParameters,
                                            TakesTurns() ? context.gathered : nullptr);
  staging_ = std::make_unique<StreamScratch>(*context.device, MemoryCategory::kOffloadStaging,
                                             context.gather_kernels);
  scratch_ = std::make_unique<StreamScratch>(*context.device, MemoryCategory::kCommunication,
                                             context.reduce_kernels);
  gradients_ =
      std::make_unique<FullBuffers>(*context.device, MemoryCategory::kGradients, context.gradients);
  return absl::OkStatus();
}

absl::Status FlatStrategy::Gather(Unit& unit, Pass, Stream& comm) {
  return GatherSegments(unit, context_.mesh->shard_gather(), *gathered_, comm,
                        context_.gather_kernels, staging_.get());
}

absl::Status FlatStrategy::Reshard(Unit& unit, Pass pass) {
  if (KeepsGathered(unit, pass)) return unit.ExpectState(UnitState::kGathered, "keep");
  return FreeGathered(unit, *gathered_);
}

absl::Status FlatStrategy::PrepareGradients(Unit& unit) {
  return PrepareFullGradients(unit, *gradients_);
}

absl::Status FlatStrategy::SyncGradients(Unit& unit, Stream& comm, GradientSync sync) {
  GradientGroups groups;
  Mesh& mesh = *context_.mesh;
  groups.shard = &mesh.shard_reduce();
  groups.replicate = ReducesAcrossGroups() ? &mesh.replicate_reduce() : nullptr;
  groups.world = &mesh.world_reduce();
  return ReduceGradients(unit, groups, options_.gradient_op, sync, *gradients_, *scratch_, comm);
}

void FlatStrategy::Abandon(Unit& unit) {
  unit.Abandon();
  gathered_->Release(unit, nullptr);
  gradients_->Release(unit, nullptr);
}

absl::Status FlatStrategy::Trim() {
  staging_->Trim();
  scratch_->Trim();
  return absl::OkStatus();
}

}  // namespace zeroth
