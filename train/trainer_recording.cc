// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Steps whose waits are counted, and steps that are recorded once and played from then on.

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/train/trainer.h"

namespace zeroth {

absl::StatusOr<StepResult> Trainer::TimedStep(absl::Span<const Batch> micro_batches, double lr,
                                              bool stop) {
  Timeline* const timeline = options_.sharding.scheduler.timeline;
  // What is recorded is one piece to the timeline.
  if (timeline == nullptr || options_.record_steps) {
    return StepWithoutAverage(micro_batches, lr, stop);
  }
  timeline->set_counts_waits(true);
  absl::StatusOr<StepResult> result = StepWithoutAverage(micro_batches, lr, stop);
  const absl::StatusOr<double> waited = timeline->Waited();
  timeline->set_counts_waits(false);
  ZEROTH_RETURN_IF_ERROR(result.status());
  ZEROTH_RETURN_IF_ERROR(waited.status());
  waited_ = *waited;
  result->waited = waited_;
  return result;
}

absl::Status Trainer::CanRecordSteps(const Communicator& world, const Device& device) {
  if (!device.CanRecord()) {
    return absl::UnimplementedError(
        absl::StrCat("steps cannot be recorded: device ", device.name(),
                     " runs what it is given at once, or has no means of playing it again"));
  }
  if (!world.SupportsRecording()) {
    return absl::UnimplementedError(absl::StrCat(
        "steps cannot be recorded: hosts take part in the collectives of ", world.name(),
        "; expected one rank, or a transport that leaves them to "
        "the device"));
  }
  return absl::OkStatus();
}

Trainer::StepKind Trainer::KindOf(absl::Span<const Batch> micro_batches) const {
  StepKind kind;
  kind.micro_batches = static_cast<int64_t>(micro_batches.size());
  kind.batch = micro_batches[0].batch;
  kind.seq = micro_batches[0].seq;
  kind.loss_scale = loss_scale();
  kind.divides_loss = CountedTargets(micro_batches) > 0;
  kind.within_documents = !micro_batches[0].starts.empty();
  for (const Unit* unit : sharded_->sharding().units()) {
    for (const Parameter* parameter : unit->parameters()) {
      kind.requires_grad.push_back(parameter->requires_grad());
    }
  }
  return kind;
}

absl::StatusOr<std::unique_ptr<Trainer::RecordedStep>> Trainer::RecordStep(const StepKind& kind,
                                                                           StepInputs inputs) {
  ZEROTH_RETURN_IF_ERROR_WITH(device_->BeginRecording(), "recording a step");
  const absl::StatusOr<Tensor> norm_and_scale = EnqueueStep(inputs, std::nullopt);
  // Recording ends whatever has become of it; of two errors, the first says more.
  absl::StatusOr<std::unique_ptr<Recording>> recording = device_->EndRecording();
  ZEROTH_RETURN_IF_ERROR_WITH(norm_and_scale.status(), "recording a step");
  ZEROTH_RETURN_IF_ERROR_WITH(recording.status(), "recording a step");
  auto recorded = std::make_unique<RecordedStep>();
  recorded->kind = kind;
  recorded->inputs = std::move(inputs);
  recorded->norm_and_scale = *norm_and_scale;
  recorded->recording = *std::move(recording);
  return recorded;
}

absl::StatusOr<Tensor> Trainer::EnqueueOrPlayStep(absl::Span<const Batch> micro_batches, double lr,
                                                  bool stop, StepInputs& inputs) {
  // The first step of a kind makes what is made once; in the second, the order that the first has
  // shown decides what runs ahead. From the third on, steps are alike.
  constexpr int kStepsBeforeRecording = 2;
  const StepKind kind = options_.record_steps ? KindOf(micro_batches) : StepKind();
  if (recorded_ != nullptr && (recorded_->kind.requires_grad != kind.requires_grad ||
                               recorded_->kind.loss_scale != kind.loss_scale)) {
    recorded_ = nullptr;
  }
  const bool plays = recorded_ != nullptr && recorded_->kind == kind;
  if (plays) {
    inputs = recorded_->inputs;
  } else {
    ZEROTH_ASSIGN_OR_RETURN(inputs, MakeInputs(micro_batches));
  }
  ZEROTH_RETURN_IF_ERROR(inputs.Fill(micro_batches, {stop, waited_.value_or(0)}));
  if (!plays) {
    steps_of_last_kind_ = kind == last_kind_ ? steps_of_last_kind_ + 1 : 1;
    last_kind_ = kind;
    if (!options_.record_steps || recorded_ != nullptr ||
        steps_of_last_kind_ <= kStepsBeforeRecording) {
      return EnqueueStep(inputs, lr);
    }
    ZEROTH_ASSIGN_OR_RETURN(recorded_, RecordStep(kind, inputs));
    steps_of_last_kind_ = 0;
  }
  return PlayStep(*recorded_, lr);
}

absl::StatusOr<Tensor> Trainer::PlayStep(const RecordedStep& step, double lr) {
  ZEROTH_RETURN_IF_ERROR(optimizer_->BeginStep(lr, 1 / loss_scale()));
  updating_ = true;
  ZEROTH_RETURN_IF_ERROR(step.recording->Play(device_->compute_stream()));
  return step.norm_and_scale;
}

}  // namespace zeroth
