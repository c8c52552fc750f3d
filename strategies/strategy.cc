// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/strategy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/program_runner.h"
#include "zeroth/strategies/unit_program.h"

namespace zeroth {

// A unit's programs, compiled on first use.
struct ShardingStrategy::Programs {
  ProgramOptions options;
  std::map<OpPlace, UnitProgram> gathers = {};           // by what is gathered
  std::optional<UnitProgram> keep_slice = std::nullopt;  // of kForwardSlice
  std::map<ReducePhase, UnitProgram> reductions = {};
};

ShardingStrategy::ShardingStrategy(const StrategyOptions& options) : options_(options) {}
ShardingStrategy::~ShardingStrategy() = default;

StrategyCapabilities ShardingStrategy::capabilities() const {
  StrategyCapabilities supported;
  supported.offload = true;
  supported.unit_collectives = true;
  supported.unit_axes = true;
  supported.gradient_divide_factor = true;
  supported.tree_micro_batches = true;
  supported.needs_reduce_kernels =
      options_.gradient_divide_factor != 0 || options_.tree_micro_batches > 1;
  return supported;
}

StrategyCapabilities FreesAfterForward::capabilities() const {
  StrategyCapabilities supported = ShardingStrategy::capabilities();
  supported.shares_buffers = options().reshard_after_forward;
  supported.post_forward_shard_size = options().reshard_after_forward;
  return supported;
}

absl::StatusOr<int> ShardingStrategy::ShardSize(int world_size) const {
  const int size = options_.shard_size;
  if (size == 0) return world_size;
  if (size > 0 && world_size % size == 0) return size;
  return WrongShardSize(
      absl::StrCat("shard size ", size, " does not divide the ", world_size, " data ranks"),
      world_size);
}

absl::Status ShardingStrategy::WrongShardSize(absl::string_view wrong, int world_size) const {
  std::vector<int> fitting;
  for (int divisor = 1; divisor <= world_size; ++divisor) {
    if (world_size % divisor == 0) fitting.push_back(divisor);
  }
  return InvalidArgument(name(), ": ", wrong, "; give one of ", absl::StrJoin(fitting, ", "));
}

absl::Status ShardingStrategy::Attach(const StrategyContext& context) {
  context_ = context;
  if (!std::isnormal(static_cast<float>(GradientScale()))) {
    return InvalidArgument(name(), ": gradient_divide_factor is ", options_.gradient_divide_factor,
                           " with ", DataParallelSize(),
                           " ranks; no fp32 number multiplies means by what that makes");
  }
  runner_ = std::make_unique<ProgramRunner>(context);
  std::vector<Communicator*> gathers;
  std::vector<Communicator*> reductions;
  const auto add_once = [](Communicator& group, std::vector<Communicator*>& groups) {
    if (std::count(groups.begin(), groups.end(), &group) == 0) groups.push_back(&group);
  };
  for (const Unit* unit : context.units) {
    ZEROTH_ASSIGN_OR_RETURN(const ProgramOptions options, ProgramOptionsOf(*unit));
    programs_.push_back({.options = options});
    add_once(unit->mesh().shard_gather(), gathers);
    add_once(unit->mesh().shard_reduce(), reductions);
  }
  for (Communicator* own : ExtraGroups()) gathers.push_back(own);
  context.gathered->RegisterWith(gathers);
  context.gradients->RegisterWith(reductions);
  return absl::OkStatus();
}

std::vector<Communicator*> ShardingStrategy::ExtraGroups() const {
  std::vector<Communicator*> groups;
  for (const auto& [shard_gather, group] : post_forward_groups_) groups.push_back(group.get());
  return groups;
}

absl::StatusOr<Communicator*> ShardingStrategy::PostForwardGroup(const Unit& unit) {
  const int size = options_.post_forward_shard_size;
  Communicator& group = unit.mesh().shard_gather();
  const bool keeps_whole = !unit.has_default_axes() && group.size() == 1;
  if (size == 0 || keeps_whole) return nullptr;
  for (const auto& [shard_gather, smaller] : post_forward_groups_) {
    if (shard_gather == &group) return smaller.get();
  }
  if (size < 0 || group.size() % size != 0) {
    return InvalidArgument(name(), ": reshard_after_forward to groups of ", size,
                           " ranks, but shard groups have ", group.size(),
                           "; expected a divisor of that");
  }
  std::vector<int> members(static_cast<size_t>(size));
  std::iota(members.begin(), members.end(), group.rank() / size * size);
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> smaller,
                          group.SplitInto(members, group.rank() / size, /*for_gathers=*/true));
  return post_forward_groups_.emplace_back(&group, std::move(smaller)).second.get();
}

absl::StatusOr<ProgramOptions> ShardingStrategy::ProgramOptionsOf(const Unit& unit) {
  ProgramOptions program;
  program.reduce_op = options_.gradient_divide_factor != 0 ? ReduceOp::kMean : options_.gradient_op;
  program.scale = GradientScale();
  program.accumulates_in_full = capabilities().adds_up_in_full || unit.sums_only_across();
  program.has_across_lane = context_.across_stream != nullptr;
  ZEROTH_ASSIGN_OR_RETURN(program.post_forward, PostForwardGroup(unit));
  return program;
}

ShardingStrategy::Programs& ShardingStrategy::ProgramsOf(const Unit& unit) {
  const auto index = static_cast<size_t>(unit.index());
  ZEROTH_CHECK(index < programs_.size());  // an override of Attach must call it
  return programs_[index];
}

std::string ShardingStrategy::ProgramsText(const Unit& unit) const {
  return zeroth::ProgramsText(unit, programs_[static_cast<size_t>(unit.index())].options);
}

absl::Status ShardingStrategy::Gather(Unit& unit, Pass, Stream& comm) {
  Programs& programs = ProgramsOf(unit);
  OpPlace from = OpPlace::kShard;
  for (const OpPlace slice : {OpPlace::kGroupSlice, OpPlace::kForwardSlice}) {
    if (ProgramRunner::HasSlice(unit, slice)) from = slice;
  }
  const auto [program, is_new] = programs.gathers.try_emplace(from);
  if (is_new) program->second = CompileGather(unit, from, programs.options);
  return runner_->Gather(unit, program->second, comm);
}

absl::Status ShardingStrategy::Reshard(Unit& unit, Pass pass) {
  if (KeepsGathered(unit, pass)) return unit.ExpectState(UnitState::kGathered, "keep");
  Programs& programs = ProgramsOf(unit);
  if (programs.options.post_forward != nullptr && pass == Pass::kForward &&
      !ProgramRunner::HasSlice(unit, OpPlace::kForwardSlice)) {
    if (!programs.keep_slice) programs.keep_slice = CompileKeepSlice(unit, programs.options);
    ZEROTH_RETURN_IF_ERROR(runner_->KeepSlice(unit, *programs.keep_slice));
  }
  ZEROTH_RETURN_IF_ERROR(FreeGathered(unit, *context_.gathered));
  if (pass != Pass::kBackward && pass != Pass::kStepEnd) return absl::OkStatus();
  return runner_->DropSlice(unit, OpPlace::kForwardSlice);
}

bool ShardingStrategy::KeepsGathered(const Unit&, Pass pass) const {
  return pass == Pass::kForward || pass == Pass::kBackward;
}

bool ShardingStrategy::KeepsGatheredAfterForward(const Unit& unit, Pass pass) const {
  return pass == Pass::kForward && (unit.is_root() || !options_.reshard_after_forward);
}

absl::Status ShardingStrategy::PrepareGradients(Unit& unit) {
  return PrepareFullGradients(unit, *context_.gradients);
}

absl::Status ShardingStrategy::SyncGradients(Unit& unit, Stream& comm, bool is_last) {
  Programs& programs = ProgramsOf(unit);
  if (programs.options.accumulates_in_full && !is_last) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR(ExpectPlaceInTree(unit, is_last));
  const int64_t earlier = unit.micro_batches_accumulated();
  const ReducePhase phase = {
      unit.accumulation(), unit.sums_in_tree() ? earlier : std::min<int64_t>(earlier, 1), is_last};
  const auto [program, is_new] = programs.reductions.try_emplace(phase);
  if (is_new) program->second = CompileReduce(unit, programs.options, phase);
  return runner_->Reduce(unit, program->second, is_last, comm);
}

// Refuses a step with more or fewer micro-batches than the tree.
absl::Status ShardingStrategy::ExpectPlaceInTree(const Unit& unit, bool is_last) const {
  const int64_t expected = unit.tree_micro_batches();
  const int64_t number = unit.micro_batches_accumulated() + 1;
  if (expected == 0 || (is_last == (number == expected) && number <= expected)) {
    return absl::OkStatus();
  }
  return FailedPrecondition(
      "unit '", unit.name(), "': micro-batch ", number, " of the step is ", is_last ? "" : "not ",
      "its last one, but gradients are summed in the tree of ", expected,
      " micro-batches a rank (tree_micro_batches); expected steps of as many");
}

// With a divide factor, collectives take the mean, which stays in the range of every type, and this
// rescales it to sum / factor.
double ShardingStrategy::GradientScale() const {
  const double factor = options_.gradient_divide_factor;
  return factor == 0 ? 1 : DataParallelSize() / factor;
}

int ShardingStrategy::DataParallelSize() const {
  return context_.units[0]->mesh().data_parallel_size();
}

absl::Status ShardingStrategy::Trim() {
  return runner_ == nullptr ? absl::OkStatus() : runner_->Trim();
}

}  // namespace zeroth
