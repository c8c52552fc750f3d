// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/scheduler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Returns the order of a backward if units are declared in the order of forward: the last one
// first, the root last.
std::vector<Unit*> ReductionOrder(const std::vector<Unit*>& units) {
  std::vector<Unit*> order(units.rbegin(), units.rend());
  std::stable_partition(order.begin(), order.end(),
                        [](const Unit* unit) { return !unit->is_root(); });
  return order;
}

// True if some gradients are reduced inside groups and then across groups.
bool ReducesAcrossGroups(const std::vector<Unit*>& units) {
  return std::any_of(units.begin(), units.end(), [](const Unit* unit) {
    return unit->mesh().owner_count() > 1 && unit->mesh().replicate_size() > 1;
  });
}

bool AreReplicated(const std::vector<Unit*>& units) {
  return std::all_of(units.begin(), units.end(),
                     [](const Unit* unit) { return unit->mesh().owner_count() == 1; });
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, ShardingStrategy& strategy, Mesh& mesh,
                     Device& device, std::vector<Unit*> units)
    : options_(options),
      strategy_(strategy),
      capabilities_(strategy.capabilities()),
      mesh_(mesh),
      device_(device),
      units_(std::move(units)),
      tracks_(units_.size()),
      chosen_(units_.size()),
      reduction_order_(ReductionOrder(units_)),
      in_fixed_order_(AreReplicated(units_) && mesh.world().size() > 1),
      order_(units_.size()),
      gathered_(device, MemoryCategory::kGatheredParameters, units_,
                capabilities_.shares_buffers ? options.gather_buffers : 0,
                [](const Unit& unit, Accumulation) { return FullParameterBytes(unit); }),
      gradients_(device, MemoryCategory::kGradients, units_, options.gradient_buffers,
                 FullGradientBytes) {}

Scheduler::~Scheduler() {
  // After an error, work may be under way that uses kernels' memory.
  for (const CommLane* lane : {&gather_, &reduce_, &across_}) {
    if (lane->stream != nullptr) lane->stream->Synchronize().IgnoreError();
  }
  for (Unit* unit : units_) {
    for (Parameter* parameter : unit->parameters()) parameter->set_gradient_provider(nullptr);
  }
}

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Create(const SchedulerOptions& options,
                                                             ShardingStrategy& strategy, Mesh& mesh,
                                                             Device& device,
                                                             std::vector<Unit*> units) {
  if (options.gather_buffers < 1 || options.gradient_buffers < 1) {
    return InvalidArgument("scheduler: gather_buffers = ", options.gather_buffers,
                           " and gradient_buffers = ", options.gradient_buffers,
                           ", expected at least 1 each");
  }
  std::unique_ptr<Scheduler> scheduler(
      new Scheduler(options, strategy, mesh, device, std::move(units)));
  ZEROTH_RETURN_IF_ERROR(scheduler->CreateLanes());
  StrategyContext context;
  context.device = &device;
  context.mesh = &mesh;
  context.units = scheduler->units_;
  context.gathered = &scheduler->gathered_;
  context.gradients = &scheduler->gradients_;
  context.gather_kernels = scheduler->gather_.kernels.get();
  context.reduce_kernels = scheduler->reduce_.kernels.get();
  context.across_stream = scheduler->across_.stream.get();
  context.across_kernels = scheduler->across_.kernels.get();
  context.timeline = options.timeline;
  ZEROTH_RETURN_IF_ERROR(strategy.Attach(context));
  for (Unit* unit : scheduler->units_) scheduler->ProvideGradients(*unit);
  // Units were zeroed on the compute stream.
  ZEROTH_ASSIGN_OR_RETURN(scheduler->shards_ready_, device.compute_stream().Record());
  return scheduler;
}

absl::Status Scheduler::CreateLanes() {
  // A program that trains in fp32 only need not link any kernels.
  bool gathers = false;
  bool reduces = capabilities_.needs_reduce_kernels;
  for (const Unit* unit : units_) {
    const bool by_itself = unit->custom_collectives() != nullptr;
    gathers = gathers || by_itself || !unit->precision().computes_in_masters();
    reduces = reduces || by_itself || unit->precision().reduce_dtype != DType::kFloat32;
  }
  const auto create = [&](CommLane& lane, absl::string_view name, bool rounds) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(lane.stream, device_.CreateStream(name));
    if (!rounds) return absl::OkStatus();
    ZEROTH_ASSIGN_OR_RETURN(lane.kernels, KernelRegistry::Create(device_, *lane.stream));
    return absl::OkStatus();
  };
  ZEROTH_RETURN_IF_ERROR(create(gather_, "gather", gathers));
  ZEROTH_RETURN_IF_ERROR(create(reduce_, "reduce", reduces));
  return ReducesAcrossGroups(units_) ? create(across_, "reduce across", reduces) : absl::OkStatus();
}

absl::Status Scheduler::ExpectKnownUnit(const Unit* unit) const {
  if (unit == nullptr) {
    return absl::InvalidArgumentError("scheduler: a null unit, expected one of the sharding's");
  }
  const auto index = static_cast<size_t>(unit->index());
  if (index < units_.size() && units_[index] == unit) return absl::OkStatus();
  return InvalidArgument("scheduler: unit '", unit->name(), "' is of another sharding");
}

absl::Status Scheduler::BeforeForward(Unit& unit, bool expects_backward) {
  ZEROTH_RETURN_IF_ERROR(ExpectKnownUnit(&unit));
  const Pass pass = expects_backward ? Pass::kForward : Pass::kInference;
  Track& in = track(unit);
  if (expects_backward && in.complete) {
    return FailedPrecondition("unit '", unit.name(),
                              "': a forward that expects a backward, but its gradients of this "
                              "micro-batch are complete; call FinishBackward first and, after the "
                              "last micro-batch, the optimizer and EndStep. A unit nested in a "
                              "checkpointed module may run only once per micro-batch; wrap the "
                              "module instead");
  }
  // A forward that is recomputed in its backward is not part of the order of forwards.
  const bool again = in.in_backward > 0;
  if (!again && InBackward()) {
    order_.RecordRecomputed(unit);
  } else if (!again) {
    order_.RecordForward(unit);
  }
  ZEROTH_RETURN_IF_ERROR(EnsureGathered(unit, pass));
  ++in.active;
  if (!again) ZEROTH_RETURN_IF_ERROR(PrefetchAhead(unit, pass));
  return MarkBegin(device_.compute_stream(), "forward", unit);
}

absl::Status Scheduler::AfterForward(Unit& unit, bool expects_backward) {
  ZEROTH_RETURN_IF_ERROR(ExpectKnownUnit(&unit));
  Track& in = track(unit);
  if (in.active == 0) {
    return FailedPrecondition("unit '", unit.name(),
                              "': AfterForward without BeforeForward; its parameters are ",
                              UnitStateName(unit.state()));
  }
  ZEROTH_RETURN_IF_ERROR(MarkEnd(device_.compute_stream(), "forward", unit));
  --in.active;
  if (expects_backward) {
    ++in.pending_backwards;
    expects_backward_ = true;
  }
  if (in.active > 0) return absl::OkStatus();
  if (expects_backward && InBackward()) {
    // A checkpointed module around the unit is being recomputed; the unit's backward is near.
    kept_.push_back(&unit);
    return absl::OkStatus();
  }
  // An inference forward between another forward and its backward must not free what that backward
  // needs.
  return strategy_.Reshard(unit, in.pending_backwards > 0 ? Pass::kForward : Pass::kInference);
}

absl::Status Scheduler::BeforeBackward(Unit& unit) {
  ZEROTH_RETURN_IF_ERROR(ExpectKnownUnit(&unit));
  Track& in = track(unit);
  if (in.pending_backwards <= in.in_backward) {
    return FailedPrecondition("unit '", unit.name(),
                              "': backward without a forward that "
                              "expects it in this step; call BeforeForward and AfterForward first");
  }
  order_.RecordBackward(unit);
  ZEROTH_RETURN_IF_ERROR(EnsureGathered(unit, Pass::kBackward));
  ++in.active;
  ++in.in_backward;
  if (options_.backward_prefetch == BackwardPrefetch::kPre) {
    ZEROTH_RETURN_IF_ERROR(PrefetchAhead(unit, Pass::kBackward));
  }
  return MarkBegin(device_.compute_stream(), "backward", unit);
}

absl::Status Scheduler::AfterBackward(Unit& unit) {
  ZEROTH_RETURN_IF_ERROR(ExpectKnownUnit(&unit));
  Track& in = track(unit);
  if (in.in_backward == 0) {
    return FailedPrecondition("unit '", unit.name(), "': AfterBackward without BeforeBackward");
  }
  ZEROTH_RETURN_IF_ERROR(MarkEnd(device_.compute_stream(), "backward", unit));
  --in.active;
  --in.in_backward;
  --in.pending_backwards;
  in.over = in.pending_backwards == 0;
  if (!requires_gradient_sync_ && unit.tree_micro_batches() > 0) {
    return FailedPrecondition(
        "unit '", unit.name(),
        "': SetRequiresGradientSync(false), but gradients are summed in a tree over "
        "micro-batches (tree_micro_batches), which takes each one's by itself");
  }
  if (in.pending_backwards == 0 && requires_gradient_sync_) {
    ZEROTH_RETURN_IF_ERROR(BackwardIsOver(unit));
  }
  if (in.active == 0 && reshard_after_backward_) {
    ZEROTH_RETURN_IF_ERROR(
        strategy_.Reshard(unit, in.pending_backwards > 0 ? Pass::kForward : Pass::kBackward));
  }
  if (options_.backward_prefetch != BackwardPrefetch::kPost) return absl::OkStatus();
  // After a backward that encloses others, such as the root's, the next unit's backward is over.
  const Unit* const next = order_.NextInBackward(unit);
  const bool is_over = next != nullptr && order_.HasSeen(*next);
  if (is_over && !chosen(unit).backward.has_value()) return absl::OkStatus();
  return PrefetchAhead(unit, Pass::kBackward);
}

// Units whose backward has not come, because the loss does not depend on them, are resharded here,
// and the next micro-batch does not wait for their backward.
absl::Status Scheduler::EndMicroBatch() {
  for (Unit* unit : units_) {
    Track& in = track(*unit);
    in.over = false;
    in.complete = false;
    in.issued = false;
    const bool is_kept = std::exchange(in.pending_backwards, 0) > 0 && in.active == 0 &&
                         unit->state() == UnitState::kGathered;
    if (is_kept && reshard_after_backward_) {
      ZEROTH_RETURN_IF_ERROR(strategy_.Reshard(*unit, Pass::kBackward));
    }
  }
  kept_.clear();
  next_reduction_ = 0;
  expects_backward_ = false;
  has_micro_batches_ = true;
  kept_in_full_ = !requires_gradient_sync_;
  return absl::OkStatus();
}

absl::Status Scheduler::FinishBackward() {
  if (!expects_backward_) {
    return absl::FailedPreconditionError(
        "there are no gradients to synchronise: no forward that expects a backward ran in this "
        "step");
  }
  for (Unit* unit : reduction_order_) {
    if (!requires_gradient_sync_) {
      ZEROTH_RETURN_IF_ERROR(ExpectRoomForSum(*unit));
    } else if (!track(*unit).issued) {
      ZEROTH_RETURN_IF_ERROR(SyncGradients(*unit));
    }
  }
  if (!requires_gradient_sync_ || !is_last_backward_) return EndMicroBatch();
  for (Unit* unit : units_) {
    if (unit->reduce_event() != nullptr) {
      ZEROTH_RETURN_IF_ERROR(ComputeWaits(unit->reduce_event(), kWaitForReduce, *unit));
    }
    // A prefetch that was not used may still read the shards, here and on other ranks.
    if (unit->state() == UnitState::kGathering && unit->gather_event() != nullptr) {
      ZEROTH_RETURN_IF_ERROR(ComputeWaits(unit->gather_event(), kWaitForGather, *unit));
    }
  }
  backward_finished_ = true;
  return absl::OkStatus();
}

absl::Status Scheduler::ExpectBackwardFinished(absl::string_view attempt) const {
  if (backward_finished_) return absl::OkStatus();
  return FailedPrecondition(
      "cannot ", attempt,
      ": the step's gradients are not there, or still on their way; call FinishBackward first");
}

absl::Status Scheduler::EndStep() {
  for (const Unit* unit : units_) {
    const bool has_gradients =
        unit->gradient_state() != GradientState::kNone || unit->has_accumulated();
    const bool is_unfinished = has_gradients && !backward_finished_;
    if (is_unfinished && has_micro_batches_) {
      return FailedPrecondition(
          "the step cannot end: unit '", unit->name(),
          "' has gradients of micro-batches that were not reduced to the end; the last one needs "
          "SetRequiresGradientSync(true) and SetIsLastBackward(true), or Abandon to drop them");
    }
    if (is_unfinished) {
      return FailedPrecondition("the step cannot end: unit '", unit->name(),
                                "' has gradients in state '",
                                GradientStateName(unit->gradient_state()),
                                "'; call FinishBackward first, or Abandon to drop them");
    }
    if (track(*unit).active > 0) {
      return FailedPrecondition("the step cannot end: unit '", unit->name(),
                                "' is still in use; each Gather needs its Reshard, and each pass "
                                "its end, or Abandon to drop them");
    }
  }
  ZEROTH_RETURN_IF_ERROR(ReshardAll());
  for (Unit* unit : units_) ZEROTH_RETURN_IF_ERROR(unit->ForgetGradients());
  ForgetStep();
  ZEROTH_ASSIGN_OR_RETURN(shards_ready_, device_.compute_stream().Record());
  return Trim();
}

absl::Status Scheduler::Abandon() {
  ++abandons_;
  // Enqueued work writes buffers, and other ranks read them: it must end before they are reused.
  absl::Status status = mesh_.world().status();
  for (Stream* stream : {gather_.stream.get(), reduce_.stream.get(), across_.stream.get(),
                         &device_.compute_stream()}) {
    if (stream != nullptr) status.Update(stream->Synchronize());
  }
  for (Unit* unit : units_) {
    unit->Abandon();
    gathered_.Release(*unit, nullptr);
    gradients_.Release(*unit, nullptr);
  }
  device_.allocator().LeaveAllPlaces();
  ForgetStep();
  order_.Forget();  // ranks may have failed at different places, and recorded different orders
  shards_ready_ = nullptr;  // all writes have ended
  status.Update(Trim());
  return status;
}

absl::Status Scheduler::ComputeWaits(const std::shared_ptr<Event>& event, absl::string_view what,
                                     const Unit& unit) {
  Stream& compute = device_.compute_stream();
  ZEROTH_RETURN_IF_ERROR_WITH(
      TimedWait(options_.timeline, compute, what, unit.name(), [&] { return compute.Wait(event); }),
      absl::StrCat("unit '", unit.name(),
                   "': ", what == kWaitForGather ? "gathering parameters" : "reducing gradients"));
  return absl::OkStatus();
}

absl::Status Scheduler::MarkBegin(Stream& stream, absl::string_view what, const Unit& unit) {
  device_.allocator().EnterPlace(what, unit.name());
  if (options_.timeline == nullptr || !options_.timeline->recording()) return absl::OkStatus();
  return options_.timeline->Begin(stream, absl::StrCat(what, " ", unit.name()));
}

absl::Status Scheduler::MarkEnd(Stream& stream, absl::string_view what, const Unit& unit) {
  device_.allocator().LeavePlace();
  if (options_.timeline == nullptr || !options_.timeline->recording()) return absl::OkStatus();
  return options_.timeline->End(stream, absl::StrCat(what, " ", unit.name()));
}

absl::Status Scheduler::Trim() {
  absl::Status status = gathered_.Trim();
  status.Update(gradients_.Trim());
  status.Update(strategy_.Trim());
  return status;
}

void Scheduler::ForgetStep() {
  tracks_.assign(units_.size(), Track());
  kept_.clear();
  next_reduction_ = 0;
  order_.EndTraversal();
  expects_backward_ = false;
  backward_finished_ = false;
  has_micro_batches_ = false;
  kept_in_full_ = false;
}

}  // namespace zeroth
