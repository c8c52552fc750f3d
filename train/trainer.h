// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One rank's training loop body: model, sharding and optimizer put together. The trainer program is
// built on it, and so can be any other program that brings its own loop.

#ifndef ZEROTH_TRAIN_TRAINER_H_
#define ZEROTH_TRAIN_TRAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/api/rank.h"
#include "zeroth/api/sharded_module.h"
#include "zeroth/api/training_step.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/kernels/kernels.h"
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
#include "zeroth/train/step_inputs.h"
#include "zeroth/train/trainer_counts.h"

namespace zeroth {

struct TrainerOptions {
  ShardingOptions sharding;  // block_numel is raised to what the optimizer's state needs
  // Ranks that share each layer's work: they are given the same data, and are neighbours. Not with
  // quantised traffic, record_steps or Muon.
  TensorParallelOptions tensor;
  WrapPolicy wrap = WrapBlocks();
  // How products are made. The devices that cannot: Unimplemented.
  KernelOptions kernels;
  // Norms are units of their own that compute, and reduce gradients, in fp32, and hand on what they
  // were given.
  bool fp32_norms = false;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kNone;
  std::string optimizer = "adamw";  // a registered name
  OptimizerOptions optimizer_options;
  std::vector<ParameterGroup> parameter_groups;  // none: all parameters alike, but for decay()
  double clip_grad_norm = 1.0;                   // 0: no clipping
  // Scale the loss, and unscale gradients where the optimizer reads them: for fp16.
  std::optional<LossScalerOptions> loss_scaler;
  // Of a step with several micro-batches: reduce each one's gradients to shards (less memory), or
  // only the last one's, with those of the others added up in full before (less traffic).
  bool sync_every_micro_batch = true;
  // Skip the update of a step whose loss, or gradient norm, has a larger z-score among those of the
  // last OutlierDetector::kWindow steps; 0: never. The host then waits for the gradients of each
  // step before it enqueues the update. Not together with record_steps.
  double skip_loss_zscore = 0;
  double skip_grad_norm_zscore = 0;
  // Keep a moving average of the weights with this decay, see WeightEma; 0: none.
  double ema_decay = 0;
  // Record a step and play it instead of enqueueing its parts each time, with the same bits; see
  // Trainer::Step.
  bool record_steps = false;
  // Above 0: the global batch is this many micro-batches at every world size, and a run has the
  // same bits at all of them: losses, gradient norms, weights. Rank r of W is given micro-batches
  // r, r + W, r + 2 W, … of each step and of each evaluation; see MicroBatchesPerRank for the world
  // sizes, and StrategyOptions::tree_micro_batches for how gradients are summed, which this sets as
  // it sets gradient_op. The device's threads, where their number may change, have to be
  // DeviceOptions::bits_of_any_team. Not with sync_every_micro_batch = false.
  int64_t deterministic_batch = 0;
};

struct StepResult {
  float loss = 0;        // mean over the batches of all ranks, the same on every rank
  double grad_norm = 0;  // of the mean gradient, before clipping
  bool stop = false;     // some rank asked to stop
  // Nothing was updated, parameters and moments are those of the step before: the norm is not a
  // finite fp32, or the step is an outlier. The same on every rank.
  bool skipped = false;
  // It was skipped because of the loss scale, which has been lowered: nothing is wrong.
  bool overflowed = false;
  double loss_scale = 1;  // that the step was made with
  bool outlier = false;   // by one of the z-scores, which there are once their windows are full
  std::optional<double> loss_zscore;
  std::optional<double> grad_norm_zscore;
  // Seconds that this rank's compute stream waited for gathers, reductions and other collectives in
  // this step, and that each rank did in the step before. There are none without a timeline in
  // SchedulerOptions, where steps are recorded, and of a step before the first.
  std::optional<double> waited;
  std::vector<double> waited_before;
};

// Collective: every rank creates one and makes the same calls in the same order. One rank's thread
// only.
//
// After an error of Step, ForwardBackward, Evaluate or Logits, status() says whether the trainer
// can go on. If it can, the weights, moments and counts are those from before the call, nothing is
// gathered, and the next call starts afresh: all ranks have to have failed in the same call, which
// they compare at the beginning of the next one. It cannot where a stream or communication is
// broken, or where the error came after the update had begun; every further call then says so.
class Trainer {
 public:
  // `world` and `device` outlive the trainer. Parameters are unset until Sharding::Initialize or
  // Load. Fails as CanRecordSteps if steps are to be recorded; InvalidArgument for z-scores or
  // a decay out of their range, and for a model with fp8 layers that is computed in fp32;
  // Unimplemented where the device has no fp8.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(Communicator& world, Device& device,
                                                         std::unique_ptr<LanguageModel> model,
                                                         const TrainerOptions& options);
  // On a rank that is open already and outlives the trainer; its kernels, not options.kernels.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(Rank& rank,
                                                         std::unique_ptr<LanguageModel> model,
                                                         const TrainerOptions& options);

  // Unimplemented names the device if it cannot record, or the transport if its calls cannot be
  // recorded (Communicator::SupportsRecording).
  static absl::Status CanRecordSteps(const Communicator& world, const Device& device);

  // Forward, backward, clipping and one optimizer step at learning rate `lr` on this rank's part of
  // the global batch, in micro-batches of equal size whose gradients are averaged: within rounding
  // what one batch of all of them gives, also where targets are ignored, if Batch::counted says how
  // many are not, in all batches or in none. `stop` asks all ranks to end together
  // (StepResult::stop). InvalidArgument unless there is a micro-batch and all are of one shape;
  // FailedPrecondition while the average of the weights is swapped in.
  //
  // With record_steps, the third step in a row of one shape (micro-batches, rows, tokens) is
  // recorded, and it and later steps of that shape are played; the two before it make what a step
  // makes once. Steps of other shapes, evaluation and logits are enqueued as ever, in between too.
  // A parameter that is frozen or thawed, or another loss scale, makes the recording void, and a
  // new one is made in the same way. The memory of one step stays allocated. A timeline must not be
  // recording then.
  absl::StatusOr<StepResult> Step(absl::Span<const Batch> micro_batches, double lr,
                                  bool stop = false);
  absl::StatusOr<StepResult> Step(const Batch& batch, double lr, bool stop = false) {
    return Step(absl::MakeConstSpan(&batch, 1), lr, stop);
  }
  // Forward and backward only: gradients are reduced and readable through the units until
  // EndStep(). Returns this rank's mean loss of each micro-batch, fp32 [count] on the device,
  // without waiting for it.
  absl::StatusOr<Tensor> ForwardBackward(absl::Span<const Batch> micro_batches);
  absl::StatusOr<Tensor> ForwardBackward(const Batch& batch) {
    return ForwardBackward(absl::MakeConstSpan(&batch, 1));
  }
  // Mean loss over the micro-batches of all ranks, without gradients; as many as Step takes.
  absl::StatusOr<float> Evaluate(absl::Span<const Batch> micro_batches);
  absl::StatusOr<float> Evaluate(const Batch& batch) {
    return Evaluate(absl::MakeConstSpan(&batch, 1));
  }
  // Logits of the positions from `from` on of one sequence, the same on every rank; see
  // LanguageModel::Logits.
  absl::StatusOr<Tensor> Logits(absl::Span<const int32_t> tokens, int64_t from,
                                KeyValueCache* cache = nullptr);

  // After a step that was skipped because something in it was not finite, and before anything else:
  // makes its forward and backward again, looks at what every operation reads and writes, and says
  // which was the first, with the rank, the unit and the parameter; the same on every rank. Takes
  // many times as long as the step.
  absl::StatusOr<std::string> FindNonFinite(absl::Span<const Batch> micro_batches);

  // After an error of one of these calls on some ranks, by all ranks at one point of their calls,
  // once they have told each other of it: the next call then need not find out who else has failed.
  void AgreedOnError() { failed_ = false; }

  // OK, or why no further step or evaluation is possible.
  const absl::Status& status() const { return status_; }

  LanguageModel& model() { return *model_; }
  Sharding& sharding() { return sharded_->sharding(); }
  Optimizer& optimizer() { return *optimizer_; }
  // The average of the weights over the steps that were not skipped; nullptr if none is kept.
  WeightEma* ema() { return ema_.get(); }
  Kernels& kernels() { return rank_->kernels(); }
  Communicator& world() { return *world_; }
  Device& device() { return *device_; }
  // What is kept beside the parameters, the optimizer's and the average's, for those who save and
  // restore it; between steps. FailedPrecondition while the average is swapped in.
  absl::StatusOr<std::vector<ShardState>> states() const;
  TrainerCounts counts() const;
  // Goes on from there, once parameters and states are those of that time. What this trainer does
  // not have, or `counts` has not, is left as it is. InvalidArgument if a part of it cannot be.
  absl::Status Restore(const TrainerCounts& counts);
  // nullptr without TrainerOptions::loss_scaler.
  LossScaler* loss_scaler() { return loss_scaler_.has_value() ? &*loss_scaler_ : nullptr; }

 private:
  Trainer() = default;
  // What decides whether a recorded step will do: two equal ones enqueue the same work.
  struct StepKind {
    int64_t micro_batches = 0;
    int64_t batch = 0;
    int64_t seq = 0;
    double loss_scale = 1;
    bool divides_loss = false;
    bool within_documents = false;
    std::vector<bool> requires_grad;  // of each parameter
    bool operator==(const StepKind&) const = default;
  };
  struct RecordedStep {
    StepKind kind;
    StepInputs inputs;
    Tensor norm_and_scale;
    std::unique_ptr<Recording> recording;  // last: it goes before what it uses
  };

  // Ranks with data of their own.
  int data_ranks() const { return world_->size() / options_.tensor.size; }
  double loss_scale() const { return loss_scaler_.has_value() ? loss_scaler_->scale() : 1.0; }
  absl::Status ExpectOneShape(absl::Span<const Batch> micro_batches) const;
  bool is_deterministic() const { return options_.deterministic_batch > 0; }
  absl::StatusOr<StepInputs> MakeInputs(absl::Span<const Batch> micro_batches) const;
  TrainingStepOptions StepOptions(const StepInputs& inputs) const;
  absl::StatusOr<Value> Loss(const StepInputs& inputs, int64_t i);
  // Forward and backward of all micro-batches; the loss of each.
  absl::StatusOr<Tensor> ForwardBackward(TrainingStep& step, const StepInputs& inputs);
  // All of a step between having its inputs and reading its results, without waiting for the
  // device. Without `lr`, Optimizer::BeginStep is the caller's. Losses go into inputs.shared;
  // returns the norm and the scale.
  absl::StatusOr<Tensor> EnqueueStep(const StepInputs& inputs, std::optional<double> lr);
  // The means over ranks and the norm of a step, once the device has them.
  absl::StatusOr<StepResult> ReadResult(const StepInputs& inputs,
                                        const Tensor& norm_and_scale) const;
  bool looks_for_outliers() const {
    return options_.skip_loss_zscore > 0 || options_.skip_grad_norm_zscore > 0;
  }
  // A step whose update waits for the verdict on its loss and norm.
  absl::StatusOr<StepResult> JudgedStep(absl::Span<const Batch> micro_batches, double lr,
                                        bool stop);
  void Judge(StepResult& result);
  // At the beginning of each public call that computes: fails if that is not possible any more, and
  // lets ranks that have failed together meet.
  absl::Status Begin();
  // After an error in one of them: leaves everything sharded, decides on status(), and returns the
  // error.
  absl::Status Fail(const absl::Status& error);
  // What `compute` returns, between the two.
  template <typename Compute>
  auto Guarded(Compute compute) -> decltype(compute()) {
    if (absl::Status begun = Begin(); !begun.ok()) return begun;
    auto result = compute();
    if (!result.ok()) return Fail(result.status());
    return result;
  }
  absl::StatusOr<StepResult> WholeStep(absl::Span<const Batch> micro_batches, double lr, bool stop);
  // Counts what is waited for others.
  absl::StatusOr<StepResult> TimedStep(absl::Span<const Batch> micro_batches, double lr, bool stop);
  absl::StatusOr<StepResult> StepWithoutAverage(absl::Span<const Batch> micro_batches, double lr,
                                                bool stop);
  absl::StatusOr<Tensor> EnqueueOrPlayStep(absl::Span<const Batch> micro_batches, double lr,
                                           bool stop, StepInputs& inputs);
  StepKind KindOf(absl::Span<const Batch> micro_batches) const;
  absl::StatusOr<std::unique_ptr<RecordedStep>> RecordStep(const StepKind& kind, StepInputs inputs);
  absl::StatusOr<Tensor> PlayStep(const RecordedStep& step, double lr);

  Communicator* world_ = nullptr;
  Device* device_ = nullptr;
  TrainerOptions options_;
  std::optional<LossScaler> loss_scaler_;
  OutlierDetector loss_detector_;
  OutlierDetector grad_norm_detector_;
  std::unique_ptr<Rank> own_rank_;  // null for somebody else's
  Rank* rank_ = nullptr;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<ShardedModule> sharded_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<WeightEma> ema_;
  StepKind last_kind_;          // of the latest step that was not played
  int steps_of_last_kind_ = 0;  // in a row
  std::unique_ptr<RecordedStep> recorded_;
  std::optional<double> waited_;  // for others in the latest step
  absl::Status status_;
  bool updating_ = false;  // the step has begun to change what a failed one must leave alone
  bool failed_ = false;    // the latest call has, and left everything as it was before
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_TRAINER_H_
