// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/flat_collectives.h"

namespace zeroth {
namespace {

absl::Status FrozenAtCreation(const Parameter& parameter, const Unit& unit) {
  return absl::FailedPreconditionError(
      absl::StrCat("it was frozen when unit '", unit.name(),
                   "' was made, so there is no place for its gradient; "
                   "to train '",
                   parameter.name(),
                   "' later, make the unit while it is trainable and freeze it afterwards "
                   "with set_requires_grad(false)"));
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, ShardingStrategy& strategy, Mesh& mesh,
                     Device& device, std::vector<Unit*> units)
    : options_(options),
      strategy_(strategy),
      mesh_(mesh),
      device_(device),
      units_(std::move(units)),
      tracks_(units_.size()) {}

Scheduler::~Scheduler() {
  for (Unit* unit : units_) {
    for (Parameter* parameter : unit->parameters()) parameter->set_gradient_provider(nullptr);
  }
}

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Create(const SchedulerOptions& options,
                                                             ShardingStrategy& strategy, Mesh& mesh,
                                                             Device& device,
                                                             std::vector<Unit*> units) {
  if (options.gather_buffers < 1 || options.gradient_buffers < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "scheduler: gather_buffers = ", options.gather_buffers,
        " and gradient_buffers = ", options.gradient_buffers, ", expected at least 1 each"));
  }
  std::unique_ptr<Scheduler> scheduler(
      new Scheduler(options, strategy, mesh, device, std::move(units)));
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  for (const Unit* unit : scheduler->units_) {
    if (unit->is_root()) continue;
    parameter_bytes = std::max(parameter_bytes, FullParameterBytes(*unit));
    gradient_bytes = std::max(gradient_bytes, FullGradientBytes(*unit));
  }
  scheduler->gathered_ = std::make_unique<BufferSet>(device, MemoryCategory::kGatheredParameters,
                                                     parameter_bytes, options.gather_buffers);
  scheduler->gradients_ = std::make_unique<BufferSet>(device, MemoryCategory::kGradients,
                                                      gradient_bytes, options.gradient_buffers);
  ZEROTH_ASSIGN_OR_RETURN(scheduler->gather_stream_, device.CreateStream("gather"));
  ZEROTH_ASSIGN_OR_RETURN(scheduler->reduce_stream_, device.CreateStream("reduce"));
  ZEROTH_RETURN_IF_ERROR(scheduler->CreateKernels());
  StrategyContext context;
  context.device = &device;
  context.mesh = &mesh;
  context.gathered = scheduler->gathered_.get();
  context.gradients = scheduler->gradients_.get();
  context.gather_kernels = scheduler->gather_kernels_.get();
  context.reduce_kernels = scheduler->reduce_kernels_.get();
  ZEROTH_RETURN_IF_ERROR(strategy.Attach(context));
  for (Unit* unit : scheduler->units_) scheduler->ProvideGradients(*unit);
  // Units were zeroed on the compute stream.
  ZEROTH_ASSIGN_OR_RETURN(scheduler->shards_ready_, device.compute_stream().Record());
  return scheduler;
}

// Whoever trains in fp32 alone need not link any kernels.
absl::Status Scheduler::CreateKernels() {
  bool gathers = false;
  bool reduces = strategy_.NeedsReduceKernels();
  for (const Unit* unit : units_) {
    const bool own_collectives = unit->collectives() != nullptr;
    gathers = gathers || own_collectives || !unit->precision().computes_in_masters();
    reduces = reduces || own_collectives || unit->precision().reduce_dtype != DType::kFloat32;
  }
  if (gathers) {
    ZEROTH_ASSIGN_OR_RETURN(gather_kernels_, KernelRegistry::Create(device_, *gather_stream_));
  }
  if (reduces) {
    ZEROTH_ASSIGN_OR_RETURN(reduce_kernels_, KernelRegistry::Create(device_, *reduce_stream_));
  }
  return absl::OkStatus();
}

void Scheduler::ProvideGradients(Unit& unit) {
  for (size_t i = 0; i < unit.parameters().size(); ++i) {
    Parameter* const parameter = unit.parameters()[i];
    if (unit.takes_gradient(static_cast<int>(i))) {
      parameter->set_gradient_provider([this, &unit] { return PrepareGradients(unit); });
    } else {
      parameter->set_gradient_provider(
          [parameter, &unit] { return FrozenAtCreation(*parameter, unit); });
    }
  }
}

absl::Status Scheduler::BeforeForward(Unit& unit, bool expects_backward) {
  const Pass pass = expects_backward ? Pass::kForward : Pass::kInference;
  Track& in = track(unit);
  if (expects_backward && in.reduced) {
    return absl::FailedPreconditionError(
        absl::StrCat("unit '", unit.name(),
                     "': a forward that expects a backward, but its gradients of this step are "
                     "reduced already; run the optimizer and EndStep first"));
  }
  // A forward that is run again for its backward says nothing about the order of forwards.
  const bool again = in.in_backward > 0;
  Unit* const previous = again ? nullptr : Record(unit, Direction::kForward);
  if (previous != nullptr) {
    track(*previous).next_in_forward = &unit;
    // Until a backward has shown its order, it is taken to be forward's, reversed.
    if (in.next_in_backward == nullptr) in.next_in_backward = previous;
  }
  ZEROTH_RETURN_IF_ERROR(EnsureGathered(unit, pass));
  ++in.active;
  if (!again) ZEROTH_RETURN_IF_ERROR(PrefetchAhead(in, pass));
  return MarkBegin(device_.compute_stream(), "forward", unit);
}

absl::Status Scheduler::AfterForward(Unit& unit, bool expects_backward) {
  Track& in = track(unit);
  if (in.active == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "unit '", unit.name(), "': AfterForward without BeforeForward; its parameters are ",
        UnitStateName(unit.state())));
  }
  ZEROTH_RETURN_IF_ERROR(MarkEnd(device_.compute_stream(), "forward", unit));
  --in.active;
  if (expects_backward) {
    ++in.pending_backwards;
    expects_backward_ = true;
  }
  if (in.active > 0) return absl::OkStatus();
  // A forward between another forward and its backward must not take away what that backward counts
  // on.
  return strategy_.Reshard(unit, in.pending_backwards > 0 ? Pass::kForward : Pass::kInference);
}

absl::Status Scheduler::BeforeBackward(Unit& unit) {
  Track& in = track(unit);
  if (in.pending_backwards <= in.in_backward) {
    return absl::FailedPreconditionError(
        absl::StrCat("unit '", unit.name(),
                     "': backward without a forward that "
                     "expects it in this step; call BeforeForward and AfterForward first"));
  }
  if (Unit* previous = Record(unit, Direction::kBackward))
    track(*previous).next_in_backward = &unit;
  ZEROTH_RETURN_IF_ERROR(EnsureGathered(unit, Pass::kBackward));
  ++in.active;
  ++in.in_backward;
  if (options_.backward_prefetch == BackwardPrefetch::kPre) {
    ZEROTH_RETURN_IF_ERROR(PrefetchAhead(in, Pass::kBackward));
  }
  return MarkBegin(device_.compute_stream(), "backward", unit);
}

absl::Status Scheduler::AfterBackward(Unit& unit) {
  Track& in = track(unit);
  if (in.in_backward == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("unit '", unit.name(), "': AfterBackward without BeforeBackward"));
  }
  ZEROTH_RETURN_IF_ERROR(MarkEnd(device_.compute_stream(), "backward", unit));
  --in.active;
  --in.in_backward;
  --in.pending_backwards;
  if (!requires_gradient_sync_ && unit.tree_micro_batches() > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("unit '", unit.name(),
                     "': SetRequiresGradientSync(false), but gradients are summed in a tree over "
                     "micro-batches (tree_micro_batches), which takes each one's by itself"));
  }
  if (in.pending_backwards == 0 && requires_gradient_sync_) {
    ZEROTH_RETURN_IF_ERROR(SyncGradients(unit));
  }
  if (in.active == 0 && reshard_after_backward_) {
    ZEROTH_RETURN_IF_ERROR(
        strategy_.Reshard(unit, in.pending_backwards > 0 ? Pass::kForward : Pass::kBackward));
  }
  if (options_.backward_prefetch != BackwardPrefetch::kPost) return absl::OkStatus();
  // Of a unit whose backward surrounds others', as the root's does, the next one's is over.
  const Unit* const next = in.next_in_backward;
  const bool is_over = next != nullptr && track(*next).seen;
  if (is_over && !in.backward_prefetch.has_value()) return absl::OkStatus();
  return PrefetchAhead(in, Pass::kBackward);
}

absl::Status Scheduler::FinishBackward() {
  if (!expects_backward_) {
    return absl::FailedPreconditionError(
        "there are no gradients to synchronise: no forward that expects a backward ran in this "
        "step");
  }
  // Backward order, so that ranks which used a unit and ranks which did not still issue the same
  // sequence.
  for (auto unit = units_.rbegin(); unit != units_.rend() && requires_gradient_sync_; ++unit) {
    if (!track(**unit).reduced) ZEROTH_RETURN_IF_ERROR(SyncGradients(**unit));
  }
  if (!requires_gradient_sync_ || !is_last_backward_) {
    for (Track& in : tracks_) in.reduced = false;
    expects_backward_ = false;
    has_micro_batches_ = true;
    return absl::OkStatus();
  }
  Stream& compute = device_.compute_stream();
  for (Unit* unit : units_) {
    if (unit->reduce_event() != nullptr) {
      ZEROTH_RETURN_IF_ERROR_WITH(compute.Wait(unit->reduce_event()),
                                  absl::StrCat("unit '", unit->name(), "': reducing gradients"));
    }
    // A prefetch that nobody used may still be reading the shards, here and on other ranks.
    if (unit->state() == UnitState::kGathering && unit->gather_event() != nullptr) {
      ZEROTH_RETURN_IF_ERROR_WITH(compute.Wait(unit->gather_event()),
                                  absl::StrCat("unit '", unit->name(), "': gathering parameters"));
    }
  }
  backward_finished_ = true;
  return absl::OkStatus();
}

absl::Status Scheduler::EndStep() {
  for (const Unit* unit : units_) {
    const bool has_gradients =
        unit->gradient_state() != GradientState::kNone || unit->has_accumulated();
    if (!has_gradients || backward_finished_) continue;
    if (has_micro_batches_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the step cannot end: unit '", unit->name(),
          "' has gradients of micro-batches that were not reduced to the end; the last one needs "
          "SetRequiresGradientSync(true) and SetIsLastBackward(true), or Abandon to drop them"));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("the step cannot end: unit '", unit->name(), "' has gradients in state '",
                     GradientStateName(unit->gradient_state()),
                     "'; call FinishBackward first, or Abandon to drop them"));
  }
  ZEROTH_RETURN_IF_ERROR(ReshardAll());
  for (Unit* unit : units_) ZEROTH_RETURN_IF_ERROR(unit->ForgetGradients());
  ForgetStep();
  ZEROTH_ASSIGN_OR_RETURN(shards_ready_, device_.compute_stream().Record());
  return Trim();
}

absl::Status Scheduler::Abandon() {
  // Work in flight writes buffers, and peers read ours: all of it has to end before they move on.
  absl::Status status = mesh_.world().status();
  for (Stream* stream : {gather_stream_.get(), reduce_stream_.get(), &device_.compute_stream()}) {
    status.Update(stream->Synchronize());
  }
  for (Unit* unit : units_) strategy_.Abandon(*unit);
  ForgetStep();
  shards_ready_ = nullptr;  // whoever wrote them has finished
  status.Update(Trim());
  return status;
}

absl::Status Scheduler::Gather(Unit& unit) {
  ZEROTH_RETURN_IF_ERROR(EnsureGathered(unit, Pass::kInference));
  ++track(unit).active;
  return absl::OkStatus();
}

absl::Status Scheduler::Reshard(Unit& unit) {
  Track& in = track(unit);
  if (in.active == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("unit '", unit.name(), "': Reshard without Gather; its parameters are ",
                     UnitStateName(unit.state())));
  }
  --in.active;
  if (in.active > 0) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR(
      strategy_.Reshard(unit, in.pending_backwards > 0 ? Pass::kForward : Pass::kInference));
  // Outside of a step nobody else gives buffers back.
  return expects_backward_ ? absl::OkStatus() : Trim();
}

absl::StatusOr<std::vector<Tensor>> Scheduler::GatherMasters(const Unit& unit) {
  if (shards_ready_ != nullptr) ZEROTH_RETURN_IF_ERROR(gather_stream_->Wait(shards_ready_));
  ZEROTH_ASSIGN_OR_RETURN(std::vector<Tensor> masters,
                          zeroth::GatherMasters(unit, mesh_.owner_gather(), *gather_stream_));
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> gathered, gather_stream_->Record());
  ZEROTH_RETURN_IF_ERROR_WITH(device_.compute_stream().Wait(gathered),
                              absl::StrCat("unit '", unit.name(), "': gathering parameters"));
  return masters;
}

absl::Status Scheduler::Prefetch(Unit& unit) {
  if (!strategy_.placement().parameters) {
    return absl::InvalidArgumentError(
        absl::StrCat("unit '", unit.name(), "': strategy '", strategy_.name(),
                     "' keeps parameters whole on every rank; there is nothing to prefetch"));
  }
  if (unit.state() != UnitState::kSharded) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unit '", unit.name(), "': cannot prefetch, it is already ", UnitStateName(unit.state())));
  }
  return StartGather(unit, Pass::kForward);
}

absl::Status Scheduler::EnsureGathered(Unit& unit, Pass pass) {
  if (unit.state() == UnitState::kSharded) ZEROTH_RETURN_IF_ERROR(StartGather(unit, pass));
  if (unit.state() == UnitState::kGathering) {
    if (unit.gather_event() != nullptr) {
      ZEROTH_RETURN_IF_ERROR_WITH(device_.compute_stream().Wait(unit.gather_event()),
                                  absl::StrCat("unit '", unit.name(), "': gathering parameters"));
    }
    ZEROTH_RETURN_IF_ERROR(unit.FinishGather());
  }
  return unit.ExpectState(UnitState::kGathered, "compute");
}

absl::Status Scheduler::StartGather(Unit& unit, Pass pass) {
  if (shards_ready_ != nullptr) ZEROTH_RETURN_IF_ERROR(gather_stream_->Wait(shards_ready_));
  ZEROTH_RETURN_IF_ERROR(MarkBegin(*gather_stream_, "gather", unit));
  ZEROTH_RETURN_IF_ERROR(strategy_.Gather(unit, pass, *gather_stream_));
  return MarkEnd(*gather_stream_, "gather", unit);
}

absl::Status Scheduler::MarkBegin(Stream& stream, absl::string_view what, const Unit& unit) {
  if (options_.timeline == nullptr || !options_.timeline->recording()) return absl::OkStatus();
  return options_.timeline->Begin(stream, absl::StrCat(what, " ", unit.name()));
}

absl::Status Scheduler::MarkEnd(Stream& stream, absl::string_view what, const Unit& unit) {
  if (options_.timeline == nullptr || !options_.timeline->recording()) return absl::OkStatus();
  return options_.timeline->End(stream, absl::StrCat(what, " ", unit.name()));
}

absl::StatusOr<Scheduler::UnshardHandle> Scheduler::Unshard(Unit& unit, bool async) {
  if (unit.state() == UnitState::kSharded) {
    ZEROTH_RETURN_IF_ERROR(StartGather(unit, Pass::kForward));
  }
  UnshardHandle handle(this, &unit);
  if (!async) ZEROTH_RETURN_IF_ERROR(handle.Wait());
  return handle;
}

absl::Status Scheduler::FinishUnshard(Unit& unit) {
  // A use in between has freed it, and nobody waits for another gather.
  if (unit.state() == UnitState::kSharded) return absl::OkStatus();
  return EnsureGathered(unit, Pass::kForward);
}

absl::Status Scheduler::PrefetchAhead(const Track& from, Pass pass) {
  const bool backward = pass == Pass::kBackward;
  const auto& chosen = backward ? from.backward_prefetch : from.forward_prefetch;
  if (chosen.has_value()) {
    for (Unit* next : *chosen) {
      if (next->state() == UnitState::kSharded) ZEROTH_RETURN_IF_ERROR(StartGather(*next, pass));
    }
    return absl::OkStatus();
  }
  Unit* const next = backward ? from.next_in_backward : from.next_in_forward;
  if (!options_.prefetch || next == nullptr || next->state() != UnitState::kSharded)
    return absl::OkStatus();
  // A unit runs ahead only into a buffer of the set: what runs ahead must not cost memory.
  if (!next->is_root() && FullParameterBytes(*next) > 0 && !gathered_->HasRoom())
    return absl::OkStatus();
  return StartGather(*next, pass);
}

absl::Status Scheduler::PrepareGradients(Unit& unit) {
  if (track(unit).reduced) {
    return absl::FailedPreconditionError(
        absl::StrCat("unit '", unit.name(),
                     "': a gradient after its gradients of this "
                     "step were reduced; run EndStep before the next backward"));
  }
  ZEROTH_RETURN_IF_ERROR(strategy_.PrepareGradients(unit));
  return unit.ExpectGradientState(GradientState::kFull, "write gradients");
}

absl::Status Scheduler::SyncGradients(Unit& unit) {
  track(unit).reduced = true;
  if (!unit.has_trainable()) return absl::OkStatus();
  if (unit.gradient_state() == GradientState::kNone)
    ZEROTH_RETURN_IF_ERROR(strategy_.PrepareGradients(unit));
  ZEROTH_RETURN_IF_ERROR(ZeroMissingGradients(unit));
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> written, device_.compute_stream().Record());
  ZEROTH_RETURN_IF_ERROR(reduce_stream_->Wait(written));
  ZEROTH_RETURN_IF_ERROR(MarkBegin(*reduce_stream_, "reduce", unit));
  const GradientSync sync = is_last_backward_ ? GradientSync::kFinish : GradientSync::kAccumulate;
  ZEROTH_RETURN_IF_ERROR(strategy_.SyncGradients(unit, *reduce_stream_, sync));
  ZEROTH_RETURN_IF_ERROR(MarkEnd(*reduce_stream_, "reduce", unit));
  if (!is_last_backward_) return absl::OkStatus();
  return unit.ExpectGradientState(GradientState::kReduced, "hand out reduced gradients");
}

absl::Status Scheduler::ZeroMissingGradients(Unit& unit) {
  for (Parameter* parameter : unit.parameters()) {
    if (!parameter->grad().defined() || parameter->has_gradient()) continue;
    const Tensor& grad = parameter->grad();
    ZEROTH_RETURN_IF_ERROR(
        device_.FillZero(grad.raw_data(), grad.bytes(), device_.compute_stream()));
    parameter->set_has_gradient(true);
  }
  return absl::OkStatus();
}

absl::Status Scheduler::ReshardAll() {
  for (Unit* unit : units_) {
    if (unit->state() == UnitState::kGathering) {
      // Nobody has used it: it has to end before its buffer moves on, and is not worth repeating.
      ForgetLinksTo(*unit);
      ZEROTH_RETURN_IF_ERROR(EnsureGathered(*unit, Pass::kStepEnd));
    }
    if (unit->state() == UnitState::kGathered)
      ZEROTH_RETURN_IF_ERROR(strategy_.Reshard(*unit, Pass::kStepEnd));
    ZEROTH_RETURN_IF_ERROR(unit->ExpectState(UnitState::kSharded, "end the step"));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::Trim() {
  absl::Status status = gathered_->Trim();
  status.Update(gradients_->Trim());
  status.Update(strategy_.Trim());
  return status;
}

Unit* Scheduler::Record(Unit& unit, Direction direction) {
  if (direction != direction_ || (track(unit).seen && last_recorded_ != &unit))
    StartTraversal(direction);
  Unit* const previous = last_recorded_ == &unit ? nullptr : last_recorded_;
  track(unit).seen = true;
  last_recorded_ = &unit;
  return previous;
}

void Scheduler::StartTraversal(Direction direction) {
  direction_ = direction;
  last_recorded_ = nullptr;
  for (Track& in : tracks_) in.seen = false;
}

void Scheduler::ForgetLinksTo(const Unit& unit) {
  for (Track& in : tracks_) {
    if (in.next_in_forward == &unit) in.next_in_forward = nullptr;
    if (in.next_in_backward == &unit) in.next_in_backward = nullptr;
  }
}

void Scheduler::ForgetStep() {
  for (Track& in : tracks_) {
    in.active = 0;
    in.in_backward = 0;
    in.pending_backwards = 0;
    in.reduced = false;
  }
  StartTraversal(Direction::kNone);
  expects_backward_ = false;
  backward_finished_ = false;
  has_micro_batches_ = false;
}

}  // namespace zeroth
