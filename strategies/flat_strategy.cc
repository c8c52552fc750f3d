// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/flat_strategy.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/gradient_reduction.h"
#include "zeroth/strategies/kept_parts.h"

namespace zeroth {
namespace {

// What a unit keeps within a step.
struct UnitParts {
  KeptParts of_group;       // where owners span groups
  KeptParts after_forward;  // with StrategyOptions::post_forward_shard_size
};

}  // namespace

StrategyCapabilities FlatStrategy::capabilities() const {
  StrategyCapabilities serves;
  serves.offload = true;
  serves.unit_collectives = true;
  serves.gradient_divide_factor = true;
  serves.tree_micro_batches = true;
  serves.needs_reduce_kernels =
      options_.gradient_divide_factor != 0 || options_.tree_micro_batches > 1;
  return serves;
}

absl::Status FlatStrategy::Attach(const StrategyContext& context) {
  context_ = context;
  if (!std::isnormal(static_cast<float>(GradientScale()))) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": gradient_divide_factor is ", options_.gradient_divide_factor,
                     " with ", context.mesh->world().size(),
                     " ranks; no fp32 number multiplies means by what that makes"));
  }
  const auto scratch = [&](MemoryCategory category, Kernels* kernels) {
    return std::make_unique<StreamScratch>(*context.device, category, kernels);
  };
  staging_ = scratch(MemoryCategory::kOffloadStaging, context.gather_kernels);
  scratch_ = scratch(MemoryCategory::kCommunication, context.reduce_kernels);
  gather_travel_ = scratch(MemoryCategory::kCommunication, context.gather_kernels);
  reduce_travel_ = scratch(MemoryCategory::kCommunication, context.reduce_kernels);
  ZEROTH_RETURN_IF_ERROR(AttachPostForwardGroup());
  std::vector<Communicator*> gathers = {&context.mesh->shard_gather()};
  for (Communicator* own : OwnGroups()) gathers.push_back(own);
  context.gathered->RegisterWith(gathers);
  context.gradients->RegisterWith({&context.mesh->shard_reduce()});
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
  if (size < 0 || mesh.shard_size() % size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        name(), ": reshard_after_forward to groups of ", size, " ranks, but shard groups have ",
        mesh.shard_size(), "; expected a divisor of that"));
  }
  ZEROTH_ASSIGN_OR_RETURN(post_forward_group_, mesh.shard_gather().SplitForGathers(
                                                   mesh.shard_index() / size, mesh.shard_index()));
  return absl::OkStatus();
}

absl::Status FlatStrategy::Gather(Unit& unit, Pass, Stream& comm) {
  const GatherTools tools{context_.gathered, context_.gather_kernels, staging_.get(),
                          gather_travel_.get()};
  Mesh& mesh = *context_.mesh;
  UnitParts& parts = unit.strategy_state<UnitParts>();
  if (parts.after_forward.defined()) {
    UnitCollectives as_is;  // what forward has brought in
    return parts.after_forward.Gather(unit, *post_forward_group_, as_is, tools, comm);
  }
  if (!mesh.owners_span_groups()) return GatherSegments(unit, mesh.shard_gather(), tools, comm);
  if (!parts.of_group.defined()) {
    ZEROTH_RETURN_IF_ERROR(unit.ExpectState(UnitState::kSharded, "gather"));
    ZEROTH_RETURN_IF_ERROR(parts.of_group.GatherAcross(unit, mesh.replicate_gather(), tools, comm));
  }
  return parts.of_group.Gather(unit, mesh.shard_gather(), unit.collectives(), tools, comm);
}

absl::Status FlatStrategy::Reshard(Unit& unit, Pass pass) {
  if (KeepsGathered(unit, pass)) return unit.ExpectState(UnitState::kGathered, "keep");
  KeptParts& after_forward = unit.strategy_state<UnitParts>().after_forward;
  if (post_forward_group_ != nullptr && pass == Pass::kForward && !after_forward.defined()) {
    ZEROTH_RETURN_IF_ERROR(after_forward.Copy(unit, *post_forward_group_));
  }
  ZEROTH_RETURN_IF_ERROR(FreeGathered(unit, *context_.gathered));
  if (pass != Pass::kBackward && pass != Pass::kStepEnd) return absl::OkStatus();
  return after_forward.Drop(unit.device().compute_stream());
}

bool FlatStrategy::KeepsGathered(const Unit&, Pass pass) const {
  return pass == Pass::kForward || pass == Pass::kBackward;
}

bool FlatStrategy::KeepsAfterForward(const Unit& unit, Pass pass) const {
  return pass == Pass::kForward && (unit.is_root() || !options_.reshard_after_forward);
}

absl::Status FlatStrategy::PrepareGradients(Unit& unit) {
  return PrepareFullGradients(unit, *context_.gradients);
}

absl::Status FlatStrategy::SyncGradients(Unit& unit, Stream& comm, GradientSync sync) {
  if (capabilities().adds_up_in_full && sync == GradientSync::kAccumulate) return absl::OkStatus();
  Mesh& mesh = *context_.mesh;
  GradientGroups groups;
  groups.shard = &mesh.shard_reduce();
  groups.replicate = ReducesAcrossGroups() ? &mesh.replicate_reduce() : nullptr;
  groups.scatters_across = mesh.owners_span_groups();
  groups.world = &mesh.world_reduce();
  groups.op = options_.gradient_divide_factor != 0 ? ReduceOp::kMean : options_.gradient_op;
  groups.scale = GradientScale();
  groups.travel = reduce_travel_.get();
  return ReduceGradients(unit, groups, sync, *context_.gradients, *scratch_, comm);
}

// Groups take the mean, which stays in range whatever the type; the rest comes on top.
double FlatStrategy::GradientScale() const {
  const double factor = options_.gradient_divide_factor;
  return factor == 0 ? 1 : static_cast<double>(context_.mesh->world().size()) / factor;
}

absl::Status FlatStrategy::Trim() {
  absl::Status status;
  for (StreamScratch* scratch :
       {staging_.get(), scratch_.get(), gather_travel_.get(), reduce_travel_.get()}) {
    status.Update(scratch->Trim());
  }
  // The optimizer makes parts stale.
  for (Unit* unit : context_.units) {
    UnitParts& parts = unit->strategy_state<UnitParts>();
    for (KeptParts* kept : {&parts.of_group, &parts.after_forward}) {
      status.Update(kept->Drop(context_.device->compute_stream()));
    }
  }
  return status;
}

}  // namespace zeroth
