// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The scheduler's gradients: their buffers, from the first write in a backward on, and their
// reductions.

#include <memory>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/scheduler.h"

namespace zeroth {
namespace {

absl::Status FrozenAtCreation(const Parameter& parameter, const Unit& unit) {
  return FailedPrecondition("it was frozen when unit '", unit.name(),
                            "' was made, so there is no place for its gradient; to train '",
                            parameter.name(),
                            "' later, make the unit while it is trainable and freeze it afterwards "
                            "with set_requires_grad(false)");
}

}  // namespace

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

absl::Status Scheduler::PrepareGradients(Unit& unit) {
  if (track(unit).complete) {
    return FailedPrecondition("unit '", unit.name(),
                              "': a gradient after its gradients of this micro-batch are "
                              "complete; call FinishBackward first and, after the last "
                              "micro-batch, EndStep");
  }
  ZEROTH_RETURN_IF_ERROR(BeginGradients(unit));
  return unit.ExpectGradientState(GradientState::kFull, "write gradients");
}

// Returns the same on all ranks, whichever units they use.
Accumulation Scheduler::AccumulationOf(const Unit& unit) const {
  if (requires_gradient_sync_ && is_last_backward_ && !has_micro_batches_) {
    return Accumulation::kSingle;
  }
  const bool in_full = !requires_gradient_sync_ || kept_in_full_ || capabilities_.adds_up_in_full ||
                       unit.sums_only_across();
  return in_full ? Accumulation::kFull : Accumulation::kReduced;
}

absl::Status Scheduler::BeginGradients(Unit& unit) {
  unit.set_accumulation(AccumulationOf(unit));
  const AllocationPlace place(device_.allocator(), "gradients of", unit.name());
  // An earlier reduction may still read the buffer.
  return TimedWait(options_.timeline, device_.compute_stream(), "wait for gradient buffer",
                   unit.name(), [&] { return strategy_.PrepareGradients(unit); });
}

// Checks, in a micro-batch that is not the last, that the next one can add to the full gradients.
absl::Status Scheduler::ExpectRoomForSum(const Unit& unit) const {
  if (unit.gradient_state() != GradientState::kFull) return absl::OkStatus();
  for (int i = 0; i < unit.segment_count(); ++i) {
    const DType sum = unit.full_gradient_dtype(i, AccumulationOf(unit));
    if (!unit.segment_layout(i).trainable || unit.segment(i).grad.dtype() == sum) continue;
    return FailedPrecondition(
        "unit '", unit.name(), "': its gradients of this micro-batch began in ",
        DTypeName(unit.segment(i).grad.dtype()),
        ", as those of a step's only one, and the next are to be added to them in ", DTypeName(sum),
        "; call SetRequiresGradientSync and SetIsLastBackward before the forward");
  }
  return absl::OkStatus();
}

absl::Status Scheduler::SyncGradients(Unit& unit) {
  track(unit).complete = true;
  track(unit).issued = true;
  if (!unit.has_trainable()) return absl::OkStatus();
  if (unit.gradient_state() == GradientState::kNone) ZEROTH_RETURN_IF_ERROR(BeginGradients(unit));
  if (!is_last_backward_) ZEROTH_RETURN_IF_ERROR(ExpectRoomForSum(unit));
  ZEROTH_RETURN_IF_ERROR(ZeroMissingGradients(unit));
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> written, device_.compute_stream().Record());
  ZEROTH_RETURN_IF_ERROR(reduce_.stream->Wait(written));
  ZEROTH_RETURN_IF_ERROR(MarkBegin(*reduce_.stream, "reduce", unit));
  // Buffers that are not kept return to the allocator in the order of the compute stream, which
  // then waits until they have been read.
  ZEROTH_RETURN_IF_ERROR(
      TimedWait(options_.timeline, device_.compute_stream(), kWaitForReduce, unit.name(),
                [&] { return strategy_.SyncGradients(unit, *reduce_.stream, is_last_backward_); }));
  ZEROTH_RETURN_IF_ERROR(MarkEnd(*reduce_.stream, "reduce", unit));
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

absl::Status Scheduler::BackwardIsOver(Unit& unit) {
  track(unit).complete = true;
  if (!in_fixed_order_) return SyncGradients(unit);
  for (; next_reduction_ < reduction_order_.size(); ++next_reduction_) {
    Unit& next = *reduction_order_[next_reduction_];
    if (!next.has_trainable()) continue;
    if (!track(next).complete) break;
    ZEROTH_RETURN_IF_ERROR(SyncGradients(next));
  }
  return absl::OkStatus();
}

}  // namespace zeroth
