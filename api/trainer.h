// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One rank's training step: a model, its sharding and its optimizer together. The trainer program
// uses it, and programs with custom loops can, too.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/api/expert_load.h"
#include "zeroth/api/rank.h"
#include "zeroth/api/sharded_module.h"
#include "zeroth/api/step_inputs.h"
#include "zeroth/api/training_step.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/kernels/distillation/distillation.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/preference/preference.h"
#include "zeroth/nn/activation_checkpointing.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/shard_module.h"
#include "zeroth/nn/tensor_ranks.h"
#include "zeroth/optim/loss_scaler.h"
#include "zeroth/optim/optimizer.h"
#include "zeroth/optim/outlier_detector.h"
#include "zeroth/optim/parameter_group.h"
#include "zeroth/optim/shard_state.h"
#include "zeroth/optim/weight_ema.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

class MoeMlp;
class NonFiniteFinder;

struct TrainerOptions {
  ShardingOptions sharding;  // block_numel is raised to what the optimizer's state needs
  // Tensor parallelism: neighbouring ranks divide each layer and have the same data. Not supported
  // with record_steps, nor with Muon for LoRA adapters.
  TensorParallelOptions tensor;
  WrapPolicy wrap = WrapBlocks();
  std::string unit_prefix;  // before the units' names in timelines and messages
  // How matmuls are computed. Unimplemented if the device does not support it.
  KernelOptions kernels;
  // Make each norm a unit that computes and reduces its gradients in fp32; its output has the type
  // of its input.
  bool fp32_norms = false;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kNone;
  std::string optimizer = "adamw";  // a registered name
  OptimizerOptions optimizer_options;
  std::vector<ParameterGroup> parameter_groups;  // empty: all alike, except for Parameter::decay()
  double clip_grad_norm = 1.0;                   // 0: no clipping
  // For fp16: scale the loss, and unscale gradients where the optimizer reads them.
  std::optional<LossScalerOptions> loss_scaler;
  // In a step with several micro-batches: reduce-scatter the gradients after each one (less
  // memory), or sum full gradients and reduce once, after the last one (less traffic).
  bool sync_every_micro_batch = true;
  // Skip the update of a step whose loss or gradient norm has a larger z-score among the last
  // OutlierDetector::kWindow steps; 0: never. The host then waits for the gradients of each step
  // before it enqueues the update. Not together with record_steps.
  double skip_loss_zscore = 0;
  double skip_grad_norm_zscore = 0;
  // Decay of a moving average of the weights (WeightEma); 0: none.
  double ema_decay = 0;
  // Record one step and replay the recording in later steps, with the same bits; see Trainer::Step.
  // Not for models with dropout, whose draws differ from step to step.
  bool record_steps = false;
  uint64_t dropout_seed = 0;  // StepDraws::seed
  // If set, a step's loss is the loss of its preference pairs (Batch::pairs) instead of the mean
  // over tokens. A loss that needs a reference (UsesReference) reads Batch::reference. If that is
  // empty, each step first computes the reference with the model's adapters turned off: the model
  // without the adapters, also where these were loaded. A model without adapters, or one that
  // trains other weights beside them (LoraOptions::modules_to_save), needs Batch::reference.
  std::optional<PreferenceOptions> preference;
  // The weight, the temperature and the divergence of the distillation loss, in steps with a
  // teacher (Trainer::SetTeacher) or whose batches have a teacher's tokens (Batch::teacher_ids),
  // which need Divergence::kForward. In other steps, and in evaluations, the loss is the mean over
  // tokens.
  DistillationOptions distillation;
  // Above 0: the global batch has this many micro-batches at every world size, and losses, gradient
  // norms and weights have the same bits at all of them. Rank r of W must be given micro-batches
  // r, r + W, r + 2 W, … of each step and each evaluation. MicroBatchesPerRank says which world
  // sizes are possible. This sets StrategyOptions::tree_micro_batches, which says how gradients are
  // summed, and gradient_op. If the number of the device's threads may change, the device needs
  // DeviceOptions::bits_of_any_team. Not with sync_every_micro_batch = false.
  int64_t deterministic_batch = 0;
  // Rate at which each step moves the biases of routers (UpdateRouterBiases); 0: they stay.
  float router_bias_rate = 0;
};

struct StepResult {
  float loss = 0;  // mean over the batches of all ranks, the same on every rank
  std::optional<PreferenceStatistics> preference;  // likewise; with TrainerOptions::preference
  std::optional<ExpertLoad> experts;               // likewise; of a model with experts
  // The tokens of each expert of each layer in the global batch, layer by layer; likewise. Divided
  // layers count each token once for each rank that shares it.
  std::vector<int64_t> expert_counts;
  double grad_norm = 0;  // of the mean gradient, before clipping
  bool stop = false;     // some rank asked to stop
  // The norm was not a finite fp32, or the step was an outlier, so parameters and moments are
  // unchanged. The same on every rank.
  bool skipped = false;
  // The step was skipped because the loss scale was too large; the scale has been lowered.
  bool overflowed = false;
  double loss_scale = 1;  // of this step
  bool outlier = false;  // a z-score exceeded its limit; z-scores exist once their windows are full
  std::optional<double> loss_zscore;
  std::optional<double> grad_norm_zscore;
  // Seconds that this rank's compute stream waited for collectives in this step, and that each
  // rank's compute stream waited in the previous step. Not set without a timeline in
  // SchedulerOptions, with recorded steps, and before the first step.
  std::optional<double> waited;
  std::vector<double> waited_before;
};

// The state of a trainer besides its tensors. The same on every rank, and part of a checkpoint.
struct TrainerCounts {
  int64_t optimizer_steps = 0;  // steps that count in the bias correction of the moments
  int64_t ema_updates = 0;      // 0 without an average
  std::optional<LossScaler::State> loss_scaler;
  OutlierDetector::State losses;
  OutlierDetector::State grad_norms;
};

// Collective: every rank creates a trainer and makes the same calls in the same order. Only the
// rank's thread may call it.
//
// After an error of Step, ForwardBackward, Evaluate or Logits, status() says whether the trainer
// can continue. If it can, weights, moments and counts are those from before the call, and nothing
// is gathered. All ranks must have failed in the same call; they compare this at the beginning of
// the next one. The trainer cannot continue if a stream or the communication is broken, or if the
// error came after the update had begun. Every further call then fails with that reason.
class Trainer {
 public:
  // `world` and `device` outlive the trainer. Parameters are unset until Sharding::Initialize or
  // Load. Fails as CanRecordSteps does if steps are to be recorded. InvalidArgument for z-scores or
  // a decay out of range, and for a model with fp8 layers that computes in fp32. Unimplemented if
  // the device has no fp8, and as LanguageModel::CheckLogits.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(Communicator& world, Device& device,
                                                         std::unique_ptr<LanguageModel> model,
                                                         const TrainerOptions& options);
  // Like the function above, for a rank that is already open. It must outlive the trainer. Uses the
  // rank's kernels and ignores options.kernels.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(Rank& rank,
                                                         std::unique_ptr<LanguageModel> model,
                                                         const TrainerOptions& options);

  // Makes all later steps distil `teacher`, a trainer on the same rank whose parameters are frozen
  // and loaded. Each micro-batch first computes the teacher's hidden states; both models' logits
  // exist for one chunk of rows at a time. InvalidArgument for a teacher of another Rank, that is
  // not frozen, with another vocabulary or other tensor ranks, and with TrainerOptions::preference.
  // Unimplemented with record_steps, and for a reward model.
  absl::Status SetTeacher(std::unique_ptr<Trainer> teacher);
  // nullptr without SetTeacher.
  Trainer* teacher() { return teacher_.get(); }

  // OK if steps can be recorded. Unimplemented names the device if it cannot record, or the
  // transport if its calls cannot be recorded (Communicator::SupportsRecording).
  static absl::Status CanRecordSteps(const Communicator& world, const Device& device);

  // Forward, backward, clipping and one optimizer step at learning rate `lr` on this rank's part of
  // the global batch. Gradients are averaged over micro-batches of equal size. Within rounding the
  // result is that of one large batch. This holds with ignored targets, too, if Batch::counted says
  // for all batches how many targets count. `stop` asks all ranks to end together
  // (StepResult::stop). InvalidArgument unless there is a micro-batch and all have one shape;
  // FailedPrecondition while the average of the weights is swapped in.
  //
  // With record_steps, the third step in a row of one shape (micro-batches, rows, tokens) is
  // recorded. That step and later ones of this shape replay the recording; the two steps before
  // make the allocations that happen once. Steps of other shapes, evaluation and logits are
  // enqueued as usual, also in between. A parameter that is frozen or thawed, or another loss
  // scale, invalidates the recording, and a new one is made in the same way. The memory of one step
  // stays allocated. No timeline may be recording.
  absl::StatusOr<StepResult> Step(absl::Span<const Batch> micro_batches, double lr,
                                  bool stop = false);
  absl::StatusOr<StepResult> Step(const Batch& batch, double lr, bool stop = false) {
    return Step(absl::MakeConstSpan(&batch, 1), lr, stop);
  }
  // Forward and backward only. Gradients are reduced and readable through the units until
  // EndStep(). Returns this rank's mean loss of each micro-batch, fp32 [count] on the device, or
  // with pairs its PreferenceStatistics, and does not wait for the device.
  absl::StatusOr<Tensor> ForwardBackward(absl::Span<const Batch> micro_batches);
  absl::StatusOr<Tensor> ForwardBackward(const Batch& batch) {
    return ForwardBackward(absl::MakeConstSpan(&batch, 1));
  }
  // Returns the mean loss over the micro-batches of all ranks, without gradients. Micro-batches and
  // `stop` are as in Step; only `loss`, `preference` and `stop` of the result are set.
  absl::StatusOr<StepResult> Evaluate(absl::Span<const Batch> micro_batches, bool stop = false);
  absl::StatusOr<StepResult> Evaluate(const Batch& batch) {
    return Evaluate(absl::MakeConstSpan(&batch, 1));
  }
  // Returns the logits of one sequence at positions `from` and later, the same on every rank; see
  // LanguageModel::Logits.
  absl::StatusOr<Tensor> Logits(absl::Span<const int32_t> tokens, int64_t from,
                                KeyValueCache* cache = nullptr);

  // Must directly follow a step that was skipped because a value was not finite. Repeats its
  // forward and backward, checks the inputs and outputs of every operation, and describes the first
  // value that is not finite, with the rank, the unit and the parameter. Returns the same text on
  // every rank. Many times slower than the step.
  absl::StatusOr<std::string> FindNonFinite(absl::Span<const Batch> micro_batches);

  // Tells the trainer that every rank knows about the last failure of a call above, so that the
  // next call need not compare it among ranks. Call it on all ranks, at the same point.
  void AgreedOnError() { failed_ = false; }

  // OK, or the reason why no further step or evaluation is possible.
  const absl::Status& status() const { return status_; }

  LanguageModel& model() { return *model_; }
  Sharding& sharding() { return sharded_->sharding(); }
  Optimizer& optimizer() { return *optimizer_; }
  // The average of the weights over all steps that were not skipped; nullptr without ema_decay.
  WeightEma* ema() { return ema_.get(); }
  Kernels& kernels() { return rank_->kernels(); }
  Communicator& world() const { return rank_->world(); }
  Device& device() const { return rank_->device(); }
  // Returns the states of the optimizer and of the average, to save and restore beside the
  // parameters. Call it between steps. FailedPrecondition while the average is swapped in.
  absl::StatusOr<std::vector<ShardState>> states() const;
  TrainerCounts counts() const;
  // Continues from `counts`, after parameters and states were restored from the same step. Ignores
  // values for parts that this trainer lacks, such as a loss scaler, and leaves parts for which
  // `counts` has no value. InvalidArgument for impossible values.
  absl::Status Restore(const TrainerCounts& counts);
  // Returns the loss of each target under the present weights, fp32 [batch, seq] on the device, and
  // 0 for a target that does not count. Later steps may read it as Batch::reference. Does not wait
  // for the device. Collective, with batches of one shape.
  absl::StatusOr<Tensor> TokenLosses(const Batch& batch);

  // nullptr without TrainerOptions::loss_scaler.
  LossScaler* loss_scaler() { return loss_scaler_.has_value() ? &*loss_scaler_ : nullptr; }

 private:
  Trainer() = default;
  // Two steps of equal kind enqueue the same work, so they can replay one recording.
  struct StepKind {
    int64_t micro_batches = 0;
    int64_t batch = 0;
    int64_t seq = 0;
    double loss_scale = 1;
    bool divides_loss = false;
    bool within_documents = false;
    bool has_reference = false;
    size_t pairs = 0;
    size_t teacher_ids = 0;
    std::vector<bool> requires_grad;  // of each parameter
    bool operator==(const StepKind&) const = default;
  };
  struct RecordedStep {
    StepKind kind;
    StepInputs inputs;
    Tensor norm_and_scale;
    std::unique_ptr<Recording> recording;  // last, to be destroyed before what it uses
  };

  // Number of ranks with different data.
  int data_ranks() const { return world().size() / options_.tensor.size; }
  double loss_scale() const { return loss_scaler_.has_value() ? loss_scaler_->scale() : 1.0; }
  absl::Status ExpectOneShape(absl::Span<const Batch> micro_batches) const;
  bool is_deterministic() const { return options_.deterministic_batch > 0; }
  absl::StatusOr<StepInputs> MakeInputs(absl::Span<const Batch> micro_batches,
                                        const RankReport& report = {}) const;
  TrainingStepOptions StepOptions(const StepInputs& inputs) const;
  absl::Status ExpectPairs(const Batch& batch) const;
  absl::Status ExpectTeacher(const Batch& batch, const Batch& first) const;
  struct MicroBatchLoss {
    Value loss;
    Tensor numbers;  // for StepInputs::SetLoss
  };
  // Keeps `finder`, if there is one, informed of the place in the step.
  absl::StatusOr<MicroBatchLoss> Loss(const StepInputs& inputs, int64_t i,
                                      NonFiniteFinder* finder = nullptr);
  // Computes the loss of a micro-batch while `teacher_` has its head gathered.
  absl::StatusOr<MicroBatchLoss> LossWithTeacher(const StepInputs& inputs, int64_t i,
                                                 NonFiniteFinder* finder);
  // With PreferenceKind::kKto, computes inputs.kl(), which the losses of all micro-batches need;
  // otherwise does nothing. Collective.
  absl::Status ComputeKl(const StepInputs& inputs);
  // Returns the losses of a micro-batch's tokens, without gradients.
  absl::StatusOr<Tensor> TokenLosses(const StepInputs& inputs, int64_t i);
  // Runs forward and backward of all micro-batches, and returns the loss of each. Tells `finder`,
  // if not null, where in the step it is.
  absl::StatusOr<Tensor> ForwardBackward(TrainingStep& step, const StepInputs& inputs,
                                         NonFiniteFinder* finder = nullptr);
  // Enqueues all of a step between its inputs and its results, without waiting for the device.
  // Without `lr`, the caller must call Optimizer::BeginStep. Losses go into the exchange of
  // `inputs`. Returns the norm and the scale.
  absl::StatusOr<Tensor> EnqueueStep(const StepInputs& inputs, std::optional<double> lr);
  // Enqueues the optimizer's part of EnqueueStep.
  absl::Status EnqueueUpdate(const Tensor& norm_and_scale, std::optional<double> lr);
  // Waits for the device and returns the loss and the norm of a step.
  absl::StatusOr<StepResult> ReadResult(const StepInputs& inputs,
                                        const Tensor& norm_and_scale) const;
  // Runs a step whose update waits until the host has checked whether its loss or norm is an
  // outlier (skip_loss_zscore, skip_grad_norm_zscore).
  absl::StatusOr<StepResult> OutlierCheckedStep(absl::Span<const Batch> micro_batches, double lr,
                                                bool stop);
  // Begins each public call that computes. Fails if the trainer cannot continue. After a failed
  // call, a barrier checks that all ranks failed in it.
  absl::Status Begin();
  // Ends such a call after an error: leaves everything sharded, sets status() if the trainer cannot
  // continue, and returns the error.
  absl::Status Fail(const absl::Status& error);
  // Calls Begin, then `compute`, and Fail if `compute` fails.
  template <typename Compute>
  auto Guarded(Compute compute) -> decltype(compute()) {
    if (absl::Status begun = Begin(); !begun.ok()) return begun;
    auto result = compute();
    if (!result.ok()) return Fail(result.status());
    return result;
  }
  // Runs an OutlierCheckedStep or a PlainStep, and then updates the seconds waited for other ranks,
  // the loss scale of the next step, and the average of the weights.
  absl::StatusOr<StepResult> RunStep(absl::Span<const Batch> micro_batches, double lr, bool stop);
  absl::StatusOr<StepResult> PlainStep(absl::Span<const Batch> micro_batches, double lr, bool stop);
  absl::StatusOr<Tensor> EnqueueOrReplayStep(absl::Span<const Batch> micro_batches, double lr,
                                             bool stop, StepInputs& inputs);
  StepKind KindOf(absl::Span<const Batch> micro_batches) const;
  absl::StatusOr<std::unique_ptr<RecordedStep>> RecordStep(const StepKind& kind, StepInputs inputs);

  TrainerOptions options_;
  std::optional<LossScaler> loss_scaler_;
  OutlierDetector loss_detector_;
  OutlierDetector grad_norm_detector_;
  std::unique_ptr<Rank> own_rank_;  // null if the caller owns the rank
  Rank* rank_ = nullptr;
  std::unique_ptr<LanguageModel> model_;
  std::vector<MoeMlp*> expert_layers_;
  // The model has adapters, and without them it is the one that training began with.
  bool adapters_off_is_reference_ = false;
  std::unique_ptr<ShardedModule> sharded_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<WeightEma> ema_;
  std::unique_ptr<Trainer> teacher_;
  StepKind last_kind_;          // of the latest step that was not replayed
  int steps_of_last_kind_ = 0;  // in a row
  std::unique_ptr<RecordedStep> recorded_;
  std::optional<double> waited_;  // seconds waited for other ranks in the latest step
  absl::Status status_;
  bool updating_ = false;  // the update has begun, so that an error is final
  bool failed_ = false;    // the latest call failed, and left everything as it was before
};

}  // namespace zeroth
