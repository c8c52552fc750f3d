// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/training_step.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/optim/clip_grad_norm.h"
#include "zeroth/strategies/scheduler.h"

namespace zeroth {

TrainingStep::TrainingStep(ShardedModule& model, const TrainingStepOptions& options)
    : model_(model), options_(options), refused_(CanBegin(model)) {
  // A refused step leaves the live one alone.
  if (!refused_.ok()) return;
  model_.live_step_ = this;
  context().set_loss_scale(loss_factor());
  context().set_draws(std::nullopt);
  Scheduler& scheduler = model_.sharding().scheduler();
  scheduler.SetIsLastBackward(options_.micro_batches == 1);
  scheduler.SetRequiresGradientSync(options_.sync_every_micro_batch || options_.micro_batches == 1);
}

TrainingStep::~TrainingStep() {
  if (!refused_.ok()) return;
  if (!ended_) {
    End();
    model_.tape().Clear();
    model_.sharding().scheduler().Abandon().IgnoreError();
  }
  // A next step that is live may have set its own draws.
  if (model_.live_step_ == nullptr) context().set_draws(std::nullopt);
}

absl::Status TrainingStep::CanBegin(ShardedModule& model) {
  if (model.live_step_ != nullptr) {
    return absl::FailedPreconditionError(
        "training step: another TrainingStep of this ShardedModule has not ended, and the two "
        "would share gradients; call its Update or EndStep, or destroy it, before you begin this "
        "one");
  }
  for (const Unit* unit : model.sharding().units()) {
    if (unit->gradient_state() == GradientState::kNone && !unit->has_accumulated()) continue;
    return FailedPrecondition("training step: unit '", unit->name(),
                              "' still has the gradients of a step that was released; call "
                              "Scheduler::EndStep or Abandon before you begin another");
  }
  return absl::OkStatus();
}

void TrainingStep::End() {
  ended_ = true;
  model_.live_step_ = nullptr;
}

void TrainingStep::Release() {
  if (refused_.ok() && !ended_) End();
}

float TrainingStep::loss_factor() const {
  const int64_t divisor =
      options_.loss_divisor > 0 ? options_.loss_divisor : options_.micro_batches;
  return static_cast<float>(options_.loss_scale) / static_cast<float>(divisor);
}

absl::Status TrainingStep::ExpectUsable() const {
  ZEROTH_RETURN_IF_ERROR(refused_);
  ZEROTH_RETURN_IF_ERROR(model_.status_);
  if (finished_ > 0 && model_.sharding().scheduler().abandons() != abandons_before_) {
    return absl::FailedPreconditionError(
        "training step: an error in a forward or backward, evaluation included, has dropped the "
        "gradients of the step's earlier micro-batches; destroy this TrainingStep and begin "
        "another");
  }
  if (options_.micro_batches >= 1 && options_.loss_divisor >= 0 && options_.loss_scale > 0) {
    return absl::OkStatus();
  }
  return InvalidArgument("training step: micro_batches = ", options_.micro_batches,
                         ", loss_divisor = ", options_.loss_divisor,
                         ", loss_scale = ", options_.loss_scale,
                         "; expected at least 1, at least 0, and a scale above 0");
}

absl::Status TrainingStep::ExpectMicroBatch() const {
  ZEROTH_RETURN_IF_ERROR(ExpectUsable());
  if (!unfinished_unit_.empty()) {
    return FailedPrecondition("training step: the pass over unit '", unfinished_unit_,
                              "' went without End; end every UnitPass, or drop the step");
  }
  if (!ended_ && finished_ < options_.micro_batches) return absl::OkStatus();
  return FailedPrecondition("training step: another backward after ", finished_, " of ",
                            options_.micro_batches, " micro-batches",
                            ended_ ? ", and after its end" : "",
                            "; expected as many as TrainingStepOptions::micro_batches says");
}

absl::Status TrainingStep::ExpectComplete() const {
  ZEROTH_RETURN_IF_ERROR(ExpectUsable());
  if (!ended_ && finished_ == options_.micro_batches) return absl::OkStatus();
  return FailedPrecondition("training step: ", finished_, " of ", options_.micro_batches,
                            " micro-batches have had their backward",
                            ended_ ? ", and the step has ended" : "",
                            "; expected all of them, and one update");
}

absl::Status TrainingStep::Backward(const Value& loss) {
  ZEROTH_RETURN_IF_ERROR(ExpectMicroBatch());
  ZEROTH_RETURN_IF_ERROR(zeroth::Backward(context(), loss));
  return FinishBackward();
}

absl::Status TrainingStep::FinishBackward() {
  ZEROTH_RETURN_IF_ERROR(ExpectMicroBatch());
  if (open_passes_ > 0) {
    return FailedPrecondition("training step: ", open_passes_,
                              " passes over units have not ended; call UnitPass::End on "
                              "each before FinishBackward");
  }
  Scheduler& scheduler = model_.sharding().scheduler();
  ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
  if (finished_++ == 0) abandons_before_ = scheduler.abandons();
  const bool is_last = finished_ + 1 >= options_.micro_batches;
  scheduler.SetIsLastBackward(is_last);
  scheduler.SetRequiresGradientSync(options_.sync_every_micro_batch || is_last);
  return absl::OkStatus();
}

absl::StatusOr<UnitPass> TrainingStep::Forward(absl::string_view name) {
  ZEROTH_RETURN_IF_ERROR(ExpectMicroBatch());
  ZEROTH_ASSIGN_OR_RETURN(Unit* const unit, FindUnit(name));
  ZEROTH_RETURN_IF_ERROR(model_.sharding().scheduler().BeforeForward(*unit));
  return UnitPass(*this, *unit, /*is_backward=*/false);
}

absl::StatusOr<UnitPass> TrainingStep::Backward(absl::string_view name) {
  ZEROTH_RETURN_IF_ERROR(ExpectMicroBatch());
  ZEROTH_ASSIGN_OR_RETURN(Unit* const unit, FindUnit(name));
  ZEROTH_RETURN_IF_ERROR(model_.sharding().scheduler().BeforeBackward(*unit));
  return UnitPass(*this, *unit, /*is_backward=*/true);
}

absl::StatusOr<Unit*> TrainingStep::FindUnit(absl::string_view name) const {
  if (Unit* const unit = model_.sharding().FindUnit(name); unit != nullptr) return unit;
  std::vector<std::string> names;
  for (const Unit* unit : model_.sharding().units()) names.push_back(unit->name());
  return absl::NotFoundError(absl::StrCat("training step: no unit is called '", name,
                                          "'; there are ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<Tensor> TrainingStep::GradNormAndScale(double max_norm) {
  ZEROTH_RETURN_IF_ERROR(ExpectComplete());
  Sharding& sharding = model_.sharding();
  return Timed(sharding.scheduler().timeline(), sharding.device().compute_stream(), "gradient",
               "norm", [&] {
                 return zeroth::GradNormAndScale(sharding, model_.kernels(), max_norm,
                                                 1 / options_.loss_scale);
               });
}

absl::Status TrainingStep::Update(Optimizer& optimizer, const UpdateOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor norm_and_scale, GradNormAndScale(options.clip_grad_norm));
  const int64_t before = optimizer.step();
  Sharding& sharding = model_.sharding();
  absl::Status updated =
      Timed(sharding.scheduler().timeline(), sharding.device().compute_stream(), "optimizer",
            "step", [&] {
              return optimizer.Step(options.lr.value_or(optimizer.lr()), 1 / options_.loss_scale,
                                    norm_and_scale.View(1, Shape({1})));
            });
  if (updated.ok()) updated = EndStep();
  // Waits for the device, so that an error of the update shows here.
  absl::StatusOr<std::vector<float>> norm = std::vector<float>();
  if (updated.ok()) norm = norm_and_scale.ToHost<float>();
  updated.Update(norm.status());
  if (!updated.ok() && optimizer.step() != before) {
    model_.status_ = Annotate(
        updated, "an update that may have changed a part of the values failed; load a checkpoint");
  }
  ZEROTH_RETURN_IF_ERROR(updated);
  grad_norm_ = static_cast<double>(norm->front());
  skipped_ = !std::isfinite(grad_norm_);
  if (skipped_) optimizer.ForgetSkippedStep();
  ++model_.steps_;
  return absl::OkStatus();
}

absl::Status TrainingStep::EndStep() {
  ZEROTH_RETURN_IF_ERROR(refused_);
  if (ended_) {
    return absl::FailedPreconditionError("training step: EndStep after its end; expected one end");
  }
  ZEROTH_RETURN_IF_ERROR(model_.sharding().scheduler().EndStep());
  End();
  return absl::OkStatus();
}

UnitPass::UnitPass(UnitPass&& other) noexcept
    : step_(std::exchange(other.step_, nullptr)),
      unit_(other.unit_),
      is_backward_(other.is_backward_) {}

UnitPass::~UnitPass() {
  if (step_ != nullptr) step_->unfinished_unit_ = unit_->name();
}

absl::StatusOr<Tensor> UnitPass::Gradient(Parameter& parameter) {
  if (!is_backward_) {
    return FailedPrecondition("unit '", unit_->name(),
                              "': gradients are written in a backward, and this "
                              "is a forward; take TrainingStep::Backward(unit)");
  }
  ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, parameter.TakeGradient());
  if (!slot.accumulate) {
    Device& device = unit_->device();
    ZEROTH_RETURN_IF_ERROR(
        device.FillZero(slot.tensor.raw_data(), slot.tensor.bytes(), device.compute_stream()));
  }
  return slot.tensor;
}

absl::Status UnitPass::End() {
  if (step_ == nullptr) {
    return FailedPrecondition("unit '", unit_->name(), "': this pass has ended already");
  }
  Scheduler& scheduler = step_->model_.sharding().scheduler();
  ZEROTH_RETURN_IF_ERROR(is_backward_ ? scheduler.AfterBackward(*unit_)
                                      : scheduler.AfterForward(*unit_));
  --step_->open_passes_;
  step_ = nullptr;
  return absl::OkStatus();
}

}  // namespace zeroth
