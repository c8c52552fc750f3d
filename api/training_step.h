// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One step of training: forward and backward of its micro-batches, and the update.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/api/sharded_module.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/nn/tape.h"
#include "zeroth/optim/optimizer.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

struct TrainingStepOptions {
  // Micro-batches of the step (gradient accumulation), whose gradients are averaged. At least 1.
  int64_t micro_batches = 1;
  // The number of losses that the step averages, by which each micro-batch's loss is divided; 0:
  // micro_batches. A loss is the mean over the targets of its micro-batch unless the context has a
  // token_divisor, so micro-batches with few targets weigh as much as others.
  int64_t loss_divisor = 0;
  // For fp16 (see LossScaler): multiplies losses for backward, and divides gradients for the
  // update. Above 0.
  double loss_scale = 1;
  // False: gradients of earlier micro-batches stay full on each rank until the last one's are
  // reduced. This costs more memory and saves traffic (FSDP2's set_requires_gradient_sync).
  bool sync_every_micro_batch = true;
};

struct UpdateOptions {
  double clip_grad_norm = 0;      // the largest norm; 0: no clipping
  std::optional<double> lr = {};  // default: the optimizer's
};

class UnitPass;

// A step of `model`. Unless Update or EndStep has ended it, the destructor abandons it: all units
// are resharded and gradients are freed, so that the next step starts afresh. Errors in any forward
// or backward, evaluation included, also abandon the step. In the first micro-batch you may retry
// the forward; later, begin a new step. No step can follow an error in a stream or in communication
// (Scheduler::Abandon), nor an error after an update has begun (ShardedModule::status). The end of
// a step also resets the context's dropout draws; set them again for the next step.
//
// A model has one live step, from its construction to Update, EndStep, Release or the destructor. A
// step that is constructed meanwhile, or before the gradients of a released one are freed, is
// refused: all its calls return FailedPrecondition, and the live step is not affected. Evaluations
// within a step do not need another step. With autograd:
//
//   TrainingStep step(*sharded);
//   ZEROTH_ASSIGN_OR_RETURN(const Value loss, model.Loss(step.context(), batch));
//   ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
//   ZEROTH_RETURN_IF_ERROR(step.Update(*optimizer, {.clip_grad_norm = 1.0}));
//
// With kernels written by hand: Forward and Backward of each unit, then FinishBackward, for each
// micro-batch. Collective, in the same order on every rank.
class TrainingStep {
 public:
  explicit TrainingStep(ShardedModule& model, const TrainingStepOptions& options = {});
  ~TrainingStep();
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  // The context of this step's forwards.
  Context& context() { return model_.context(); }

  // Computes the backward of one micro-batch from its loss, which has one element, and starts the
  // reduction of gradients. FailedPrecondition for a loss that was not recorded, and after the last
  // micro-batch. InvalidArgument, as from the calls below, for TrainingStepOptions out of range.
  absl::Status Backward(const Value& loss);

  // Begins a forward or a backward by hand of the unit of this name. NotFound if there is none.
  absl::StatusOr<UnitPass> Forward(absl::string_view unit);
  absl::StatusOr<UnitPass> Backward(absl::string_view unit);
  // Ends a micro-batch after its backwards by hand; Backward(loss) does so itself.
  absl::Status FinishBackward();
  // The factor of gradients that are computed by hand: loss_scale / loss_divisor.
  float loss_factor() const;

  // {global norm, factor} of the step's gradients, fp32 [2] in device memory: GradNormAndScale
  // without the loss scale. FailedPrecondition before the last micro-batch.
  absl::StatusOr<Tensor> GradNormAndScale(double max_norm);
  // Updates the shards, skips the step if a gradient is not finite, ends it, and waits for the
  // device. FailedPrecondition, and nothing is changed, before the last micro-batch;
  // InvalidArgument likewise for options out of range.
  absl::Status Update(Optimizer& optimizer, const UpdateOptions& options = {});
  // Ends the step without an update, or after the caller's own update.
  absl::Status EndStep();
  // Hands the step over to the caller, who may read gradients and must call Scheduler::EndStep or
  // Abandon.
  void Release();

  // After Update: the step's global norm before clipping, and whether the step was skipped.
  double grad_norm() const { return grad_norm_; }
  bool skipped() const { return skipped_; }

 private:
  friend class UnitPass;
  // FailedPrecondition if a step of `model` is live, or has left gradients.
  static absl::Status CanBegin(ShardedModule& model);
  void End();
  absl::StatusOr<Unit*> FindUnit(absl::string_view name) const;
  absl::Status ExpectUsable() const;
  absl::Status ExpectMicroBatch() const;
  absl::Status ExpectComplete() const;

  ShardedModule& model_;
  const TrainingStepOptions options_;
  const absl::Status refused_;   // OK, or why this step did not begin
  int64_t finished_ = 0;         // micro-batches whose backward has ended
  int64_t abandons_before_ = 0;  // Scheduler::abandons() when the first of them ended
  int open_passes_ = 0;          // UnitPasses that have begun and not ended
  std::string unfinished_unit_;  // unit whose UnitPass was destroyed without End; empty: none
  bool ended_ = false;
  double grad_norm_ = 0;
  bool skipped_ = false;
};

// A forward or a backward of one unit by hand. Between its creation and End, Parameter::data() of
// the unit's parameters is gathered, in the order of the compute stream. If it is destroyed without
// End, the step has failed.
class UnitPass {
 public:
  UnitPass(UnitPass&& other) noexcept;
  UnitPass& operator=(UnitPass&&) = delete;
  ~UnitPass();

  // In a backward: add this micro-batch's gradient of `parameter` to this tensor. It has the
  // parameter's shape, and holds zeros, or the gradients of earlier micro-batches.
  absl::StatusOr<Tensor> Gradient(Parameter& parameter);
  // Frees the parameters; a backward starts the reduction of the unit's gradients.
  absl::Status End();

 private:
  friend class TrainingStep;
  UnitPass(TrainingStep& step, Unit& unit, bool is_backward)
      : step_(&step), unit_(&unit), is_backward_(is_backward) {
    ++step.open_passes_;
  }

  TrainingStep* step_;  // nullptr once it is over
  Unit* unit_;
  bool is_backward_;
};

}  // namespace zeroth
