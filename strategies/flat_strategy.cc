// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/flat_strategy.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/tree_sum.h"

namespace zeroth {

absl::Status FlatStrategy::Attach(const StrategyContext& context) {
  context_ = context;
  if (!std::isnormal(static_cast<float>(GradientScale()))) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": gradient_divide_factor is ", options_.gradient_divide_factor,
                     " with ", context.mesh->world().size(),
                     " ranks; no fp32 number multiplies means by what that makes"));
  }
  gathered_ = std::make_unique<FullBuffers>(*context.device, MemoryCategory::kGatheredParameters,
                                            TakesTurns() ? context.gathered : nullptr);
  staging_ = std::make_unique<StreamScratch>(*context.device, MemoryCategory::kOffloadStaging,
                                             context.gather_kernels);
  scratch_ = std::make_unique<StreamScratch>(*context.device, MemoryCategory::kCommunication,
                                             context.reduce_kernels);
  gradients_ =
      std::make_unique<FullBuffers>(*context.device, MemoryCategory::kGradients, context.gradients);
  gather_travel_ = std::make_unique<StreamScratch>(*context.device, MemoryCategory::kCommunication,
                                                   context.gather_kernels);
  reduce_travel_ = std::make_unique<StreamScratch>(*context.device, MemoryCategory::kCommunication,
                                                   context.reduce_kernels);
  if (context.mesh->owners_span_groups()) {
    group_parts_ = std::make_unique<GroupParts>(
        GroupParts::Context{context.device, context.mesh, gathered_.get(), context.gather_kernels,
                            staging_.get(), gather_travel_.get()});
  }
  ZEROTH_RETURN_IF_ERROR(AttachPostForwardGroup());
  std::vector<Communicator*> gathers = {&context.mesh->shard_gather()};
  if (post_forward_group_ != nullptr) gathers.push_back(post_forward_group_.get());
  gathered_->RegisterWith(gathers);
  gradients_->RegisterWith({&context.mesh->shard_reduce()});
  return absl::OkStatus();
}

std::vector<Communicator*> FlatStrategy::OwnGroups() const {
  if (post_forward_group_ == nullptr) return {};
  return {post_forward_group_.get()};
}

absl::Status FlatStrategy::AttachPostForwardGroup() {
  const int size = options_.post_forward_shard_size;
  Mesh& mesh = *context_.mesh;
  if (size == 0) return absl::OkStatus();
  if (size < 0 || mesh.shard_size() % size != 0 || !TakesTurns()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name(), ": reshard_after_forward to groups of ", size, " ranks, but ",
        TakesTurns()
            ? absl::StrCat("shard groups have ", mesh.shard_size(), "; expected a divisor of that")
            : "parameters stay gathered after their forward; use full_shard or "
              "hybrid_shard"));
  }
  ZEROTH_ASSIGN_OR_RETURN(post_forward_group_, mesh.shard_gather().SplitForGathers(
                                                   mesh.shard_index() / size, mesh.shard_index()));
  secondary_ = std::make_unique<SecondaryShards>(*post_forward_group_, *gathered_);
  return absl::OkStatus();
}

absl::Status FlatStrategy::Gather(Unit& unit, Pass, Stream& comm) {
  if (secondary_ != nullptr && secondary_->Holds(unit)) return secondary_->Gather(unit, comm);
  if (group_parts_ != nullptr) return group_parts_->Gather(unit, comm);
  return GatherSegments(unit, context_.mesh->shard_gather(), *gathered_, comm,
                        context_.gather_kernels, staging_.get(), gather_travel_.get());
}

absl::Status FlatStrategy::Reshard(Unit& unit, Pass pass) {
  if (KeepsGathered(unit, pass)) return unit.ExpectState(UnitState::kGathered, "keep");
  if (secondary_ == nullptr) return FreeGathered(unit, *gathered_);
  if (pass == Pass::kForward) return secondary_->Keep(unit);
  ZEROTH_RETURN_IF_ERROR(FreeGathered(unit, *gathered_));
  if (pass != Pass::kInference) secondary_->Drop(unit);
  return absl::OkStatus();
}

absl::Status FlatStrategy::PrepareGradients(Unit& unit) {
  return PrepareFullGradients(unit, *gradients_);
}

bool FlatStrategy::AddsUpInFull() const {
  const Mesh& mesh = *context_.mesh;
  return mesh.owners_span_groups() && mesh.shard_size() == 1 && !sums_in_tree();
}

absl::Status FlatStrategy::SyncGradients(Unit& unit, Stream& comm, GradientSync sync) {
  if (options_.tree_micro_batches > 0) {
    ZEROTH_RETURN_IF_ERROR(ExpectPlaceInTree(unit, options_.tree_micro_batches, sync));
  }
  if (AddsUpInFull() && sync == GradientSync::kAccumulate) return absl::OkStatus();
  GradientGroups groups;
  Mesh& mesh = *context_.mesh;
  groups.scatters_across = mesh.owners_span_groups();
  groups.shard = &mesh.shard_reduce();
  groups.replicate = ReducesAcrossGroups() ? &mesh.replicate_reduce() : nullptr;
  groups.world = &mesh.world_reduce();
  groups.travel = reduce_travel_.get();
  if (sums_in_tree()) {
    return SumGradientsInTree(unit, groups, sync, *gradients_, *scratch_, comm);
  }
  groups.scale = GradientScale();
  const ReduceOp op = options_.gradient_divide_factor != 0 ? ReduceOp::kMean : options_.gradient_op;
  return ReduceGradients(unit, groups, op, sync, *gradients_, *scratch_, comm);
}

// Groups take the mean, which stays in range whatever the type; the rest comes on top.
double FlatStrategy::GradientScale() const {
  const double factor = options_.gradient_divide_factor;
  return factor == 0 ? 1 : static_cast<double>(context_.mesh->world().size()) / factor;
}

void FlatStrategy::Abandon(Unit& unit) {
  unit.Abandon();
  gathered_->Release(unit, nullptr);
  gradients_->Release(unit, nullptr);
  if (secondary_ != nullptr) secondary_->Drop(unit);
  if (group_parts_ != nullptr) group_parts_->Drop(unit);
}

absl::Status FlatStrategy::Trim() {
  absl::Status status;
  for (StreamScratch* scratch :
       {staging_.get(), scratch_.get(), gather_travel_.get(), reduce_travel_.get()}) {
    status.Update(scratch->Trim());
  }
  status.Update(gathered_->Trim());
  status.Update(gradients_->Trim());
  if (secondary_ != nullptr) secondary_->Clear();
  if (group_parts_ != nullptr) status.Update(group_parts_->Clear());
  return status;
}

}  // namespace zeroth
