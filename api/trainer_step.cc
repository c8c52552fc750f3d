// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One optimizer step in three forms: enqueued operation by operation; with its update delayed until
// the host has checked the loss and the norm for outliers; or recorded once and then replayed.

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "zeroth/api/router_biases.h"
#include "zeroth/api/trainer.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<StepResult> Trainer::Step(absl::Span<const Batch> micro_batches, double lr,
                                         bool stop) {
  return Guarded([&]() -> absl::StatusOr<StepResult> {
    if (ema_ != nullptr && ema_->swapped()) {
      return absl::FailedPreconditionError(
          "a step while the average of the weights is swapped in; swap it back first");
    }
    ZEROTH_RETURN_IF_ERROR(ExpectOneShape(micro_batches));
    return RunStep(micro_batches, lr, stop);
  });
}

absl::StatusOr<StepResult> Trainer::RunStep(absl::Span<const Batch> micro_batches, double lr,
                                            bool stop) {
  Timeline* const timeline = options_.sharding.scheduler.timeline;
  // The timeline sees a recorded step as a whole, without its individual waits.
  const bool counts_waits = timeline != nullptr && !options_.record_steps;
  if (counts_waits) timeline->set_counts_waits(true);
  const bool checks_outliers = options_.skip_loss_zscore > 0 || options_.skip_grad_norm_zscore > 0;
  absl::StatusOr<StepResult> result = checks_outliers ? OutlierCheckedStep(micro_batches, lr, stop)
                                                      : PlainStep(micro_batches, lr, stop);
  if (counts_waits) {
    const absl::StatusOr<double> waited = timeline->Waited();
    timeline->set_counts_waits(false);
    ZEROTH_RETURN_IF_ERROR(result.status());
    ZEROTH_RETURN_IF_ERROR(waited.status());
    waited_ = result->waited = *waited;
  }
  ZEROTH_RETURN_IF_ERROR(result.status());
  result->loss_scale = loss_scale();
  if (loss_scaler_.has_value() && !result->outlier) {
    const bool explained = loss_scaler_->Update(/*finite=*/!result->skipped);
    result->overflowed = result->skipped && explained;
  }
  // Whether the step counts is known only here, after the host has waited for the step.
  if (options_.router_bias_rate > 0 && !result->skipped) {
    ZEROTH_RETURN_IF_ERROR(UpdateRouterBiases(sharding(), kernels(), expert_layers_,
                                              result->expert_counts, options_.router_bias_rate));
  }
  if (ema_ != nullptr && !result->skipped) {
    ZEROTH_RETURN_IF_ERROR(Timed(timeline, device().compute_stream(), "average", "weights",
                                 [&] { return ema_->Update(); }));
  }
  return result;
}

absl::StatusOr<StepResult> Trainer::PlainStep(absl::Span<const Batch> micro_batches, double lr,
                                              bool stop) {
  StepInputs inputs;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor norm_and_scale,
                          EnqueueOrReplayStep(micro_batches, lr, stop, inputs));
  // Only here, with the whole step enqueued, does the host wait for the device. Losses and `stop`
  // come from one exchange, so all ranks stop together. A rank that stopped by itself would leave
  // the others waiting in the next collective.
  ZEROTH_ASSIGN_OR_RETURN(const StepResult result, ReadResult(inputs, norm_and_scale));
  if (result.skipped) optimizer_->ForgetSkippedStep();
  return result;
}

absl::StatusOr<Tensor> Trainer::EnqueueStep(const StepInputs& inputs, std::optional<double> lr) {
  TrainingStep step(*sharded_, StepOptions(inputs));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor losses, ForwardBackward(step, inputs));
  ZEROTH_ASSIGN_OR_RETURN(Tensor norm_and_scale, step.GradNormAndScale(options_.clip_grad_norm));
  ZEROTH_RETURN_IF_ERROR(EnqueueUpdate(norm_and_scale, lr));
  ZEROTH_RETURN_IF_ERROR(step.EndStep());
  ZEROTH_RETURN_IF_ERROR(inputs.ExchangeLosses(losses, "loss"));
  return norm_and_scale;
}

absl::Status Trainer::EnqueueUpdate(const Tensor& norm_and_scale, std::optional<double> lr) {
  const AllocationPlace place(device().allocator(), "optimizer", options_.optimizer);
  if (lr.has_value()) {
    ZEROTH_RETURN_IF_ERROR(optimizer_->BeginStep(*lr, 1 / loss_scale()));
    updating_ = true;
  }
  return Timed(options_.sharding.scheduler.timeline, device().compute_stream(), "optimizer",
               options_.optimizer,
               [&] { return optimizer_->Update(norm_and_scale.View(1, Shape({1}))); });
}

absl::StatusOr<StepResult> Trainer::ReadResult(const StepInputs& inputs,
                                               const Tensor& norm_and_scale) const {
  ZEROTH_ASSIGN_OR_RETURN(const StepInputs::Exchanged exchanged, inputs.ReadExchanged());
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> norm, norm_and_scale.ToHost<float>());
  StepResult result;
  result.loss = exchanged.loss;
  result.preference = exchanged.preference;
  result.experts = exchanged.experts;
  result.expert_counts = exchanged.expert_counts;
  result.grad_norm = static_cast<double>(norm[0]);
  result.stop = exchanged.flag;
  result.skipped = !std::isfinite(norm[0]);
  if (waited_.has_value()) result.waited_before = exchanged.waited;
  return result;
}

absl::StatusOr<StepResult> Trainer::OutlierCheckedStep(absl::Span<const Batch> micro_batches,
                                                       double lr, bool stop) {
  ZEROTH_ASSIGN_OR_RETURN(const StepInputs inputs,
                          MakeInputs(micro_batches, {stop, waited_.value_or(0)}));
  TrainingStep step(*sharded_, StepOptions(inputs));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor losses, ForwardBackward(step, inputs));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor norm_and_scale,
                          step.GradNormAndScale(options_.clip_grad_norm));
  ZEROTH_RETURN_IF_ERROR(inputs.ExchangeLosses(losses, "loss"));
  ZEROTH_ASSIGN_OR_RETURN(StepResult result, ReadResult(inputs, norm_and_scale));
  updating_ = true;
  // A step that is not finite is skipped in any case, and must not enter the windows of the
  // z-scores.
  if (!result.skipped) {
    result.loss_zscore = loss_detector_.Add(static_cast<double>(result.loss));
    result.grad_norm_zscore = grad_norm_detector_.Add(result.grad_norm);
    const auto exceeds = [](const std::optional<double>& score, double limit) {
      return limit > 0 && score.has_value() && *score > limit;
    };
    result.skipped = result.outlier =
        exceeds(result.loss_zscore, options_.skip_loss_zscore) ||
        exceeds(result.grad_norm_zscore, options_.skip_grad_norm_zscore);
  }
  if (!result.skipped) ZEROTH_RETURN_IF_ERROR(EnqueueUpdate(norm_and_scale, lr));
  ZEROTH_RETURN_IF_ERROR(step.EndStep());
  return result;
}

absl::Status Trainer::CanRecordSteps(const Communicator& world, const Device& device) {
  if (!device.CanRecord()) {
    return Unimplemented("steps cannot be recorded: device ", device.name(),
                         " executes work immediately, or cannot replay it");
  }
  if (!world.SupportsRecording()) {
    return Unimplemented(
        "steps cannot be recorded: the collectives of ", world.name(),
        " need the host; expected one rank, or a transport whose collectives run on the device");
  }
  return absl::OkStatus();
}

Trainer::StepKind Trainer::KindOf(absl::Span<const Batch> micro_batches) const {
  StepKind kind;
  kind.micro_batches = static_cast<int64_t>(micro_batches.size());
  kind.batch = micro_batches[0].batch;
  kind.seq = micro_batches[0].seq;
  kind.loss_scale = loss_scale();
  kind.divides_loss = CountedTargets(micro_batches).has_value();
  kind.within_documents = !micro_batches[0].starts.empty();
  kind.has_reference = !micro_batches[0].reference.empty();
  kind.pairs = micro_batches[0].pairs.size();
  kind.teacher_ids = micro_batches[0].teacher_ids.size();
  for (const Unit* unit : sharded_->sharding().units()) {
    for (const Parameter* parameter : unit->parameters()) {
      kind.requires_grad.push_back(parameter->requires_grad());
    }
  }
  return kind;
}

absl::StatusOr<std::unique_ptr<Trainer::RecordedStep>> Trainer::RecordStep(const StepKind& kind,
                                                                           StepInputs inputs) {
  ZEROTH_RETURN_IF_ERROR_WITH(device().BeginRecording(), "recording a step");
  const absl::StatusOr<Tensor> norm_and_scale = EnqueueStep(inputs, std::nullopt);
  // The recording must end also after an error. The first of two errors says more.
  absl::StatusOr<std::unique_ptr<Recording>> recording = device().EndRecording();
  ZEROTH_RETURN_IF_ERROR_WITH(norm_and_scale.status(), "recording a step");
  ZEROTH_RETURN_IF_ERROR_WITH(recording.status(), "recording a step");
  return std::unique_ptr<RecordedStep>(
      new RecordedStep{kind, std::move(inputs), *norm_and_scale, *std::move(recording)});
}

absl::StatusOr<Tensor> Trainer::EnqueueOrReplayStep(absl::Span<const Batch> micro_batches,
                                                    double lr, bool stop, StepInputs& inputs) {
  // The first step of a kind makes the allocations that happen once. The second is the first to
  // prefetch in the recorded order of units. From the third on, steps are alike.
  constexpr int kStepsBeforeRecording = 2;
  const StepKind kind = options_.record_steps ? KindOf(micro_batches) : StepKind();
  if (recorded_ != nullptr && (recorded_->kind.requires_grad != kind.requires_grad ||
                               recorded_->kind.loss_scale != kind.loss_scale)) {
    recorded_ = nullptr;
  }
  const bool replays = recorded_ != nullptr && recorded_->kind == kind;
  const RankReport report = {stop, waited_.value_or(0)};
  if (replays) {
    inputs = recorded_->inputs;
    ZEROTH_RETURN_IF_ERROR(inputs.Fill(micro_batches, report));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(inputs, MakeInputs(micro_batches, report));
    steps_of_last_kind_ = kind == last_kind_ ? steps_of_last_kind_ + 1 : 1;
    last_kind_ = kind;
    if (!options_.record_steps || recorded_ != nullptr ||
        steps_of_last_kind_ <= kStepsBeforeRecording) {
      return EnqueueStep(inputs, lr);
    }
    // An inference may have left slices of the present weights, which the recording would read.
    ZEROTH_RETURN_IF_ERROR(sharding().scheduler().EndStep());
    ZEROTH_ASSIGN_OR_RETURN(recorded_, RecordStep(kind, inputs));
    steps_of_last_kind_ = 0;
  }
  // A replay updates the weights, but not the scheduler's state: nothing may stay gathered.
  ZEROTH_RETURN_IF_ERROR(sharding().scheduler().EndStep());
  ZEROTH_RETURN_IF_ERROR(optimizer_->BeginStep(lr, 1 / loss_scale()));
  updating_ = true;
  ZEROTH_RETURN_IF_ERROR(recorded_->recording->Play(device().compute_stream()));
  return recorded_->norm_and_scale;
}

}  // namespace zeroth
