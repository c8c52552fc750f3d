// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/flat_strategy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/flat_collectives.h"
#include "zeroth/strategies/gradient_reduction.h"
#include "zeroth/strategies/kept_parts.h"

namespace zeroth {
namespace {

// The parts of a unit that this rank keeps within a step.
struct UnitParts {
  KeptParts of_group;       // if owners span groups
  KeptParts after_forward;  // with StrategyOptions::post_forward_shard_size
};

// Returns the bytes of the largest sum that is made inside a group and then reduced across groups.
int64_t LargestHandedOver(const StrategyContext& context) {
  int64_t numel = 0;
  for (const Unit* unit : context.units) {
    if (unit->mesh().replicate_size() == 1) continue;
    for (int i = 0; i < unit->segment_count(); ++i) {
      numel = std::max(numel, unit->segment_layout(i).numel / unit->mesh().shard_size());
    }
  }
  return numel * static_cast<int64_t>(SizeOf(DType::kFloat32));
}

}  // namespace

struct FlatStrategy::Scratch {
  Scratch(Device& device, int64_t largest_handed_over)
      : staging(device, MemoryCategory::kOffloadStaging),
        gather_collectives(device, MemoryCategory::kCommunication),
        sums(device, MemoryCategory::kCommunication),
        reduce_collectives(device, MemoryCategory::kCommunication),
        across_sums(device, MemoryCategory::kCommunication),
        across_collectives(device, MemoryCategory::kCommunication),
        handed_over(device, MemoryCategory::kCommunication, {largest_handed_over}, /*limit=*/2) {}

  StreamScratch staging;  // of gathers
  StreamScratch gather_collectives;
  StreamScratch sums;  // of reductions inside groups
  StreamScratch reduce_collectives;
  StreamScratch across_sums;
  StreamScratch across_collectives;
  BufferSet handed_over;
};

StrategyCapabilities FlatStrategy::capabilities() const {
  StrategyCapabilities serves;
  serves.offload = true;
  serves.unit_collectives = true;
  serves.unit_axes = true;
  serves.gradient_divide_factor = true;
  serves.tree_micro_batches = true;
  serves.needs_reduce_kernels =
      options_.gradient_divide_factor != 0 || options_.tree_micro_batches > 1;
  return serves;
}

StrategyCapabilities FreesAfterForward::capabilities() const {
  StrategyCapabilities serves = FlatStrategy::capabilities();
  serves.shares_buffers = options().reshard_after_forward;
  serves.post_forward_shard_size = options().reshard_after_forward;
  return serves;
}

absl::StatusOr<int> FlatStrategy::ShardSize(int world_size) const {
  const int size = options_.shard_size;
  if (size == 0) return world_size;
  if (size > 0 && world_size % size == 0) return size;
  return WrongShardSize(absl::StrCat("shard size ", size, " does not divide the ", world_size,
                                     " ranks that have data of their own"),
                        world_size);
}

absl::Status FlatStrategy::WrongShardSize(absl::string_view wrong, int world_size) const {
  std::vector<int> fitting;
  for (int divisor = 1; divisor <= world_size; ++divisor) {
    if (world_size % divisor == 0) fitting.push_back(divisor);
  }
  return InvalidArgument(name(), ": ", wrong, "; give one of ", absl::StrJoin(fitting, ", "));
}

absl::Status FlatStrategy::Attach(const StrategyContext& context) {
  context_ = context;
  if (!std::isnormal(static_cast<float>(GradientScale()))) {
    return InvalidArgument(name(), ": gradient_divide_factor is ", options_.gradient_divide_factor,
                           " with ", DataSize(),
                           " ranks; no fp32 number multiplies means by what that makes");
  }
  scratch_ = std::make_shared<Scratch>(*context.device, LargestHandedOver(context));
  ZEROTH_RETURN_IF_ERROR(AttachPostForwardGroups());
  std::vector<Communicator*> gathers;
  std::vector<Communicator*> reductions;
  const auto add_once = [](Communicator& group, std::vector<Communicator*>& groups) {
    if (std::count(groups.begin(), groups.end(), &group) == 0) groups.push_back(&group);
  };
  for (const Unit* unit : context.units) {
    add_once(unit->mesh().shard_gather(), gathers);
    add_once(unit->mesh().shard_reduce(), reductions);
  }
  for (Communicator* own : OwnGroups()) gathers.push_back(own);
  context.gathered->RegisterWith(gathers);
  context.gradients->RegisterWith(reductions);
  return absl::OkStatus();
}

std::vector<Communicator*> FlatStrategy::OwnGroups() const {
  std::vector<Communicator*> groups;
  for (const auto& [shard_gather, group] : post_forward_groups_) groups.push_back(group.get());
  return groups;
}

absl::Status FlatStrategy::AttachPostForwardGroups() {
  const int size = options_.post_forward_shard_size;
  if (size == 0) return absl::OkStatus();
  for (const Unit* unit : context_.units) {
    Communicator& group = unit->mesh().shard_gather();
    const bool keeps_whole = !unit->has_default_axes() && group.size() == 1;
    if (keeps_whole || PostForwardGroup(*unit) != nullptr) continue;
    if (size < 0 || group.size() % size != 0) {
      return InvalidArgument(name(), ": reshard_after_forward to groups of ", size,
                             " ranks, but shard groups have ", group.size(),
                             "; expected a divisor of that");
    }
    std::vector<int> members(static_cast<size_t>(size));
    std::iota(members.begin(), members.end(), group.rank() / size * size);
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> smaller,
                            group.SplitInto(members, group.rank() / size, /*for_gathers=*/true));
    post_forward_groups_.emplace_back(&group, std::move(smaller));
  }
  return absl::OkStatus();
}

Communicator* FlatStrategy::PostForwardGroup(const Unit& unit) const {
  for (const auto& [shard_gather, group] : post_forward_groups_) {
    if (shard_gather == &unit.mesh().shard_gather()) return group.get();
  }
  return nullptr;
}

absl::Status FlatStrategy::Gather(Unit& unit, Pass, Stream& comm) {
  const GatherTools tools{context_.gathered, context_.gather_kernels, &scratch_->staging,
                          &scratch_->gather_collectives};
  const MeshView& mesh = unit.mesh();
  UnitParts& parts = unit.strategy_state<UnitParts>();
  if (parts.after_forward.defined()) {
    CommunicatorCollectives as_is;  // the unit's own have made the values that the forward has left
    return parts.after_forward.Gather(unit, *PostForwardGroup(unit), as_is, tools, comm);
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
  const Communicator* const group = PostForwardGroup(unit);
  if (group != nullptr && pass == Pass::kForward && !after_forward.defined()) {
    ZEROTH_RETURN_IF_ERROR(after_forward.Copy(unit, *group));
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
  const bool adds_up_in_full = capabilities().adds_up_in_full || unit.sums_only_across();
  if (adds_up_in_full && sync == GradientSync::kAccumulate) return absl::OkStatus();
  ReductionOptions reduction;
  reduction.op = options_.gradient_divide_factor != 0 ? ReduceOp::kMean : options_.gradient_op;
  reduction.scale = GradientScale();
  reduction.inside = {&comm, context_.reduce_kernels, &scratch_->sums,
                      &scratch_->reduce_collectives};
  reduction.across = {context_.across_stream, context_.across_kernels, &scratch_->across_sums,
                      &scratch_->across_collectives};
  reduction.handed_over = &scratch_->handed_over;
  reduction.timeline = context_.timeline;
  return ReduceGradients(unit, reduction, sync, *context_.gradients);
}

// Collectives take the mean, which stays in the range of every type; this makes up for the divide
// factor.
double FlatStrategy::GradientScale() const {
  const double factor = options_.gradient_divide_factor;
  return factor == 0 ? 1 : DataSize() / factor;
}

int FlatStrategy::DataSize() const { return context_.units[0]->mesh().data_size(); }

absl::Status FlatStrategy::Trim() {
  absl::Status status;
  for (StreamScratch* scratch :
       {&scratch_->staging, &scratch_->gather_collectives, &scratch_->sums,
        &scratch_->reduce_collectives, &scratch_->across_sums, &scratch_->across_collectives}) {
    status.Update(scratch->Trim());
  }
  status.Update(scratch_->handed_over.Trim());
  // The optimizer's update makes parts stale.
  for (Unit* unit : context_.units) {
    UnitParts& parts = unit->strategy_state<UnitParts>();
    for (KeptParts* kept : {&parts.of_group, &parts.after_forward}) {
      status.Update(kept->Drop(context_.device->compute_stream()));
    }
  }
  return status;
}

}  // namespace zeroth
