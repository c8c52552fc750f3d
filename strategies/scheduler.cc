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

// The sizes of the buffers that units other than the root take turns in: the largest's, and that
// of those which would leave most of such a buffer empty, as a norm that is a unit inside a block.
template <typename BytesOf>
std::vector<int64_t> BufferSizes(const std::vector<Unit*>& units, const BytesOf& bytes_of) {
  constexpr int64_t kMuchSmaller = 8;
  int64_t largest = 0;
  for (const Unit* unit : units) {
    if (!unit->is_root()) largest = std::max(largest, bytes_of(*unit));
  }
  int64_t small = 0;
  for (const Unit* unit : units) {
    const int64_t bytes = bytes_of(*unit);
    if (!unit->is_root() && bytes <= largest / kMuchSmaller) small = std::max(small, bytes);
  }
  if (small == 0) return {largest};
  return {small, largest};
}

// Of buffers for full gradients, in the type of those of one micro-batch and of sums of several.
std::vector<int64_t> GradientBufferSizes(const std::vector<Unit*>& units) {
  std::vector<int64_t> sizes;
  for (const MicroBatches how : {MicroBatches::kOne, MicroBatches::kAddedInFull}) {
    for (const int64_t bytes :
         BufferSizes(units, [how](const Unit& unit) { return FullGradientBytes(unit, how); })) {
      sizes.push_back(bytes);
    }
  }
  return sizes;
}

// Backward's where units are declared in forward's order: the last one first, the root last.
std::vector<Unit*> ReductionOrder(const std::vector<Unit*>& units) {
  std::vector<Unit*> order(units.rbegin(), units.rend());
  std::stable_partition(order.begin(), order.end(),
                        [](const Unit* unit) { return !unit->is_root(); });
  return order;
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, ShardingStrategy& strategy, Mesh& mesh,
                     Device& device, std::vector<Unit*> units)
    : options_(options),
      strategy_(strategy),
      mesh_(mesh),
      device_(device),
      units_(std::move(units)),
      tracks_(units_.size()),
      reduction_order_(ReductionOrder(units_)),
      in_fixed_order_(mesh.owner_count() == 1 && mesh.world().size() > 1) {}

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
  scheduler->gathered_ = std::make_unique<BufferSet>(
      device, MemoryCategory::kGatheredParameters,
      BufferSizes(scheduler->units_, FullParameterBytes), options.gather_buffers);
  scheduler->gradients_ =
      std::make_unique<BufferSet>(device, MemoryCategory::kGradients,
                                  GradientBufferSizes(scheduler->units_), options.gradient_buffers);
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

absl::Status Scheduler::ExpectOwn(const Unit* unit) const {
  if (unit == nullptr) {
    return absl::InvalidArgumentError("scheduler: a null unit, expected one of the sharding's");
  }
  const auto index = static_cast<size_t>(unit->index());
  if (index < units_.size() && units_[index] == unit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("scheduler: unit '", unit->name(), "' is of another sharding"));
}

absl::Status Scheduler::ExpectOwn(const std::vector<Unit*>& units) const {
  for (const Unit* unit : units) ZEROTH_RETURN_IF_ERROR(ExpectOwn(unit));
  return absl::OkStatus();
}

absl::Status Scheduler::BeforeForward(Unit& unit, bool expects_backward) {
  ZEROTH_RETURN_IF_ERROR(ExpectOwn(&unit));
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
  ZEROTH_RETURN_IF_ERROR(ExpectOwn(&unit));
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
  ZEROTH_RETURN_IF_ERROR(ExpectOwn(&unit));
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
  ZEROTH_RETURN_IF_ERROR(ExpectOwn(&unit));
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
    ZEROTH_RETURN_IF_ERROR(BackwardIsOver(unit));
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

absl::Status Scheduler::BackwardIsOver(Unit& unit) {
  track(unit).reduced = true;
  if (!in_fixed_order_) return SyncGradients(unit);
  for (; next_reduction_ < reduction_order_.size(); ++next_reduction_) {
    Unit& next = *reduction_order_[next_reduction_];
    if (!next.has_trainable()) continue;
    if (!track(next).reduced) break;
    ZEROTH_RETURN_IF_ERROR(SyncGradients(next));
  }
  return absl::OkStatus();
}

// Whatever of it is left: units whose backward has not come after all, as where a loss does not
// depend on what their forward has made, must not be waited for in the next one.
absl::Status Scheduler::EndMicroBatch() {
  for (Unit* unit : units_) {
    Track& in = track(*unit);
    in.reduced = false;
    in.issued = false;
    const bool is_kept = std::exchange(in.pending_backwards, 0) > 0 && in.active == 0 &&
                         unit->state() == UnitState::kGathered;
    if (is_kept && reshard_after_backward_) {
      ZEROTH_RETURN_IF_ERROR(strategy_.Reshard(*unit, Pass::kBackward));
    }
  }
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

absl::Status Scheduler::ExpectBackwardFinished(absl::string_view attempt) const {
  if (backward_finished_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot ", attempt,
      ": the step's gradients are not there, or still on their way; call FinishBackward first"));
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
  // Ranks may have failed at different places, and have learned different orders there.
  for (Track& in : tracks_) {
    in.next_in_forward = nullptr;
    in.next_in_backward = nullptr;
  }
  shards_ready_ = nullptr;  // whoever wrote them has finished
  status.Update(Trim());
  return status;
}

absl::Status Scheduler::MarkBegin(Stream& stream, absl::string_view what, const Unit& unit) {
  if (options_.timeline == nullptr || !options_.timeline->recording()) return absl::OkStatus();
  return options_.timeline->Begin(stream, absl::StrCat(what, " ", unit.name()));
}

absl::Status Scheduler::MarkEnd(Stream& stream, absl::string_view what, const Unit& unit) {
  if (options_.timeline == nullptr || !options_.timeline->recording()) return absl::OkStatus();
  return options_.timeline->End(stream, absl::StrCat(what, " ", unit.name()));
}

absl::Status Scheduler::PrepareGradients(Unit& unit) {
  if (track(unit).reduced) {
    return absl::FailedPreconditionError(
        absl::StrCat("unit '", unit.name(),
                     "': a gradient after its gradients of this "
                     "step were reduced; run EndStep before the next backward"));
  }
  ZEROTH_RETURN_IF_ERROR(BeginGradients(unit));
  return unit.ExpectGradientState(GradientState::kFull, "write gradients");
}

// The same on all ranks, whichever units they use.
MicroBatches Scheduler::HowMicroBatchesComeTogether() const {
  if (requires_gradient_sync_ && is_last_backward_ && !has_micro_batches_) {
    return MicroBatches::kOne;
  }
  const bool in_full = !requires_gradient_sync_ || kept_in_full_ || strategy_.AddsUpInFull();
  return in_full ? MicroBatches::kAddedInFull : MicroBatches::kReducedEach;
}

absl::Status Scheduler::BeginGradients(Unit& unit) {
  unit.set_micro_batches(HowMicroBatchesComeTogether());
  return strategy_.PrepareGradients(unit);
}

// Of a micro-batch that is not the last.
absl::Status Scheduler::ExpectRoomForSum(const Unit& unit) const {
  if (unit.gradient_state() != GradientState::kFull) return absl::OkStatus();
  for (int i = 0; i < unit.segment_count(); ++i) {
    const DType sum = unit.full_gradient_dtype(i, HowMicroBatchesComeTogether());
    if (!unit.segment_layout(i).trainable || unit.segment(i).grad.dtype() == sum) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "unit '", unit.name(), "': its gradients of this micro-batch began in ",
        DTypeName(unit.segment(i).grad.dtype()),
        ", as those of a step's only one, and the next are to be added to them in ", DTypeName(sum),
        "; call SetRequiresGradientSync and SetIsLastBackward before the forward"));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::SyncGradients(Unit& unit) {
  track(unit).reduced = true;
  track(unit).issued = true;
  if (!unit.has_trainable()) return absl::OkStatus();
  if (unit.gradient_state() == GradientState::kNone) ZEROTH_RETURN_IF_ERROR(BeginGradients(unit));
  if (!is_last_backward_) ZEROTH_RETURN_IF_ERROR(ExpectRoomForSum(unit));
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

absl::Status Scheduler::Trim() {
  absl::Status status = gathered_->Trim();
  status.Update(gradients_->Trim());
  status.Update(strategy_.Trim());
  return status;
}

void Scheduler::ForgetStep() {
  for (Track& in : tracks_) {
    in.active = 0;
    in.in_backward = 0;
    in.pending_backwards = 0;
    in.reduced = false;
    in.issued = false;
  }
  next_reduction_ = 0;
  StartTraversal(Direction::kNone);
  expects_backward_ = false;
  backward_finished_ = false;
  has_micro_batches_ = false;
  kept_in_full_ = false;
}

}  // namespace zeroth
