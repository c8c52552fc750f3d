// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/trainer.h"

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/fp8/fp8.h"
#include "zeroth/nn/layers/fp8_layers.h"
#include "zeroth/optim/adamw.h"
#include "zeroth/train/deterministic_batch.h"
#include "zeroth/train/divided_model.h"

namespace zeroth {

namespace {

absl::Status ValidateOutlierOptions(const TrainerOptions& options) {
  for (const double limit : {options.skip_loss_zscore, options.skip_grad_norm_zscore}) {
    if (!(limit >= 0) || limit >= OutlierDetector::LargestZScore()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a z-score limit of ", limit,
          ": expected 0 (none), or one that a step can exceed: below ",
          OutlierDetector::LargestZScore(), " in a window of ", OutlierDetector::kWindow));
    }
    if (limit > 0 && options.record_steps) {
      return absl::InvalidArgumentError(
          "outliers cannot be skipped in recorded steps: the update is played together with what "
          "the verdict would be on");
    }
  }
  return absl::OkStatus();
}

absl::Status MakeDeterministic(const TrainerOptions& options, int world_size,
                               StrategyOptions& strategy) {
  if (options.deterministic_batch == 0) return absl::OkStatus();
  if (!options.sync_every_micro_batch) {
    return absl::InvalidArgumentError(
        "a deterministic batch reduces the gradients of each micro-batch by themselves; expected "
        "sync_every_micro_batch");
  }
  ZEROTH_ASSIGN_OR_RETURN(strategy.tree_micro_batches,
                          MicroBatchesPerRank(options.deterministic_batch, world_size));
  strategy.gradient_op = ReduceOp::kSum;
  return absl::OkStatus();
}

WrapPlan PlanFor(Module& model, const TrainerOptions& options) {
  if (!options.fp32_norms) return PlanUnits(model, options.wrap);
  WrapPlan plan = PlanUnits(model, WrapNorms(options.wrap));
  MixedPrecision norms;
  norms.output_dtype = options.sharding.mixed_precision.param_dtype;
  for (size_t i = 0; i < plan.units.size(); ++i) {
    if (plan.modules[i]->role() == Module::Role::kNorm) plan.units[i].precision = norms;
  }
  return plan;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(Communicator& world, Device& device,
                                                         std::unique_ptr<LanguageModel> model,
                                                         const TrainerOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Rank> rank, Rank::Open(world, device, options.kernels));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Create(*rank, std::move(model), options));
  trainer->own_rank_ = std::move(rank);
  return trainer;
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(Rank& rank,
                                                         std::unique_ptr<LanguageModel> model,
                                                         const TrainerOptions& options) {
  Communicator& world = rank.world();
  Device& device = rank.device();
  if (options.record_steps) ZEROTH_RETURN_IF_ERROR(CanRecordSteps(world, device));
  ZEROTH_RETURN_IF_ERROR(ValidateOutlierOptions(options));
  std::unique_ptr<Trainer> trainer(new Trainer);
  trainer->rank_ = &rank;
  trainer->world_ = &world;
  trainer->device_ = &device;
  trainer->options_ = options;
  if (options.loss_scaler.has_value()) {
    ZEROTH_ASSIGN_OR_RETURN(trainer->loss_scaler_, LossScaler::Create(*options.loss_scaler));
  }
  trainer->model_ = std::move(model);
  ZEROTH_RETURN_IF_ERROR_WITH(DivideForTraining(*trainer->model_, rank, options),
                              "tensor parallelism");
  SetActivationCheckpointing(*trainer->model_, options.activation_checkpointing);
  Kernels& kernels = rank.kernels();
  if (!FindFp8Layers(*trainer->model_).in_fp8.empty()) {
    ZEROTH_RETURN_IF_ERROR_WITH(kernels::SupportsFp8(kernels), "fp8");
    if (options.sharding.mixed_precision.param_dtype == DType::kFloat32) {
      return absl::InvalidArgumentError(
          "fp8: parameters are computed in fp32, expected bf16 or fp16 (param_dtype), the types of "
          "what products of 8-bit floats give");
    }
  }
  const WrapPlan plan = PlanFor(*trainer->model_, options);
  ShardingOptions sharding = options.sharding;
  ZEROTH_RETURN_IF_ERROR(
      MakeDeterministic(options, trainer->data_ranks(), sharding.strategy_options));
  if (sharding.block_numel >= 1) {
    sharding.block_numel =
        std::lcm(sharding.block_numel, RequiredBlockNumel(options.optimizer_options.state_dtype));
  }
  ZEROTH_ASSIGN_OR_RETURN(trainer->sharded_,
                          ShardedModule::Create(rank, plan, sharding, options.tensor));
  const AllocationPlace place(device.allocator(), "optimizer", options.optimizer);
  ZEROTH_ASSIGN_OR_RETURN(
      trainer->optimizer_,
      OptimizerRegistry::Create(options.optimizer, trainer->sharding(), kernels,
                                options.optimizer_options, options.parameter_groups));
  if (options.ema_decay != 0) {
    ZEROTH_ASSIGN_OR_RETURN(trainer->ema_,
                            WeightEma::Create(trainer->sharding(), kernels, options.ema_decay));
  }
  return trainer;
}

absl::Status Trainer::ExpectOneShape(absl::Span<const Batch> micro_batches) const {
  if (micro_batches.empty()) {
    return absl::InvalidArgumentError("a step of no micro-batches, expected at least one");
  }
  const auto count = static_cast<int64_t>(micro_batches.size());
  if (is_deterministic() && count * data_ranks() != options_.deterministic_batch) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " micro-batches on this rank of ", data_ranks(), ", expected ",
                     options_.deterministic_batch / data_ranks(), ": the deterministic batch has ",
                     options_.deterministic_batch));
  }
  for (const Batch& batch : micro_batches) {
    const auto tokens = static_cast<size_t>(batch.batch * batch.seq);
    if (batch.inputs.size() != tokens || batch.targets.size() != tokens) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a micro-batch of ", batch.batch, " x ", batch.seq, " tokens with ", batch.inputs.size(),
          " inputs and ", batch.targets.size(), " targets, expected ", tokens, " of each"));
    }
    if ((batch.counted > 0) != (micro_batches[0].counted > 0) ||
        batch.starts.size() != (micro_batches[0].starts.empty() ? 0 : tokens)) {
      return absl::InvalidArgumentError(
          "of some micro-batches of a step it is said how many targets count, or where documents "
          "begin, and of others not");
    }
    if (batch.batch == micro_batches[0].batch && batch.seq == micro_batches[0].seq) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "micro-batches of ", micro_batches[0].batch, " x ", micro_batches[0].seq, " and ",
        batch.batch, " x ", batch.seq, " tokens, expected one shape: their means are averaged"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Trainer::ForwardBackward(absl::Span<const Batch> micro_batches) {
  ZEROTH_RETURN_IF_ERROR(ExpectOneShape(micro_batches));
  return Guarded([&]() -> absl::StatusOr<Tensor> {
    ZEROTH_ASSIGN_OR_RETURN(const StepInputs inputs, MakeInputs(micro_batches));
    ZEROTH_RETURN_IF_ERROR(inputs.Fill(micro_batches, {}));
    TrainingStep step(*sharded_, StepOptions(inputs));
    ZEROTH_ASSIGN_OR_RETURN(Tensor losses, ForwardBackward(step, inputs));
    step.Release();
    return losses;
  });
}

absl::StatusOr<StepInputs> Trainer::MakeInputs(absl::Span<const Batch> micro_batches) const {
  return StepInputs::Create(*world_, *device_, micro_batches, options_.deterministic_batch,
                            options_.tensor.size);
}

TrainingStepOptions Trainer::StepOptions(const StepInputs& inputs) const {
  TrainingStepOptions options;
  options.micro_batches = inputs.micro_batches();
  // The rest of the division is the reduction's, a mean over ranks, where it is no sum.
  if (is_deterministic()) options.loss_divisor = options_.deterministic_batch;
  options.loss_scale = loss_scale();
  options.sync_every_micro_batch = options_.sync_every_micro_batch;
  return options;
}

absl::StatusOr<Value> Trainer::Loss(const StepInputs& inputs, int64_t i) {
  Context& context = sharded_->context();
  context.set_loss_divisor(inputs.divisor());
  context.set_document_starts(inputs.starts(i));
  return model_->Loss(context, inputs.tokens(i), inputs.targets(i));
}

absl::StatusOr<Tensor> Trainer::ForwardBackward(TrainingStep& step, const StepInputs& inputs) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor losses, inputs.MakeLosses());
  for (int64_t i = 0; i < inputs.micro_batches(); ++i) {
    ZEROTH_ASSIGN_OR_RETURN(const Value loss, Loss(inputs, i));
    ZEROTH_RETURN_IF_ERROR(inputs.KeepLoss(losses, i, loss.data));
    ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
  }
  return losses;
}

absl::StatusOr<Tensor> Trainer::EnqueueStep(const StepInputs& inputs, std::optional<double> lr) {
  TrainingStep step(*sharded_, StepOptions(inputs));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor losses, ForwardBackward(step, inputs));
  Timeline* const timeline = options_.sharding.scheduler.timeline;
  ZEROTH_ASSIGN_OR_RETURN(Tensor norm_and_scale,
                          Timed(timeline, device_->compute_stream(), "gradient", "norm",
                                [&] { return step.GradNormAndScale(options_.clip_grad_norm); }));
  const AllocationPlace place(device_->allocator(), "optimizer", options_.optimizer);
  if (lr.has_value()) {
    ZEROTH_RETURN_IF_ERROR(optimizer_->BeginStep(*lr, 1 / loss_scale()));
    updating_ = true;
  }
  ZEROTH_RETURN_IF_ERROR(
      Timed(timeline, device_->compute_stream(), "optimizer", options_.optimizer,
            [&] { return optimizer_->Update(norm_and_scale.View(1, Shape({1}))); }));
  ZEROTH_RETURN_IF_ERROR(step.EndStep());
  ZEROTH_RETURN_IF_ERROR(inputs.ShareLosses(losses, "loss"));
  return norm_and_scale;
}

absl::StatusOr<StepResult> Trainer::ReadResult(const StepInputs& inputs,
                                               const Tensor& norm_and_scale) const {
  ZEROTH_ASSIGN_OR_RETURN(const StepInputs::Shared shared, inputs.ReadShared());
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> norm, norm_and_scale.ToHost<float>());
  StepResult result;
  result.loss = shared.loss;
  result.grad_norm = static_cast<double>(norm[0]);
  result.stop = shared.flag;
  result.skipped = !std::isfinite(norm[0]);
  if (waited_.has_value()) result.waited_before = shared.waited;
  return result;
}

void Trainer::Judge(StepResult& result) {
  const auto exceeds = [](const std::optional<double>& score, double limit) {
    return limit > 0 && score.has_value() && *score > limit;
  };
  result.loss_zscore = loss_detector_.Add(static_cast<double>(result.loss));
  result.grad_norm_zscore = grad_norm_detector_.Add(result.grad_norm);
  result.outlier = exceeds(result.loss_zscore, options_.skip_loss_zscore) ||
                   exceeds(result.grad_norm_zscore, options_.skip_grad_norm_zscore);
}

absl::StatusOr<StepResult> Trainer::JudgedStep(absl::Span<const Batch> micro_batches, double lr,
                                               bool stop) {
  ZEROTH_ASSIGN_OR_RETURN(const StepInputs inputs, MakeInputs(micro_batches));
  ZEROTH_RETURN_IF_ERROR(inputs.Fill(micro_batches, {stop, waited_.value_or(0)}));
  TrainingStep step(*sharded_, StepOptions(inputs));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor losses, ForwardBackward(step, inputs));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor norm_and_scale,
                          step.GradNormAndScale(options_.clip_grad_norm));
  ZEROTH_RETURN_IF_ERROR(inputs.ShareLosses(losses, "loss"));
  ZEROTH_ASSIGN_OR_RETURN(StepResult result, ReadResult(inputs, norm_and_scale));
  updating_ = true;
  // What is not finite is skipped in any case, and would drown the windows.
  if (!result.skipped) Judge(result);
  result.skipped = result.skipped || result.outlier;
  if (!result.skipped) {
    const Tensor scale = norm_and_scale.View(1, Shape({1}));
    ZEROTH_RETURN_IF_ERROR(optimizer_->Step(lr, 1 / loss_scale(), scale));
  }
  ZEROTH_RETURN_IF_ERROR(step.EndStep());
  return result;
}

absl::Status Trainer::Begin() {
  if (!status_.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the trainer cannot go on after an earlier error (", status_.ToString(),
                     "); make a new one, in a new world, from what was saved before"));
  }
  updating_ = false;
  // Of a loss that is not this call's.
  sharded_->context().set_document_starts(Tensor());
  sharded_->context().set_loss_divisor(Tensor());
  if (!failed_ || world_->size() == 1) return absl::OkStatus();
  // A rank that has failed alone finds the others in another call, and all of them are told.
  Stream& stream = device_->compute_stream();
  absl::Status met = world_->Barrier(
      stream, absl::StrCat("a step after one that failed, after ", optimizer_->step(), " updates"));
  if (met.ok()) met = stream.Synchronize();
  if (!met.ok()) return Fail(met);
  failed_ = false;
  return absl::OkStatus();
}

absl::Status Trainer::Fail(const absl::Status& error) {
  sharded_->tape().Clear();
  const absl::Status abandoned = sharding().scheduler().Abandon();
  if (updating_ || !abandoned.ok()) {
    status_ = error;
  } else {
    failed_ = true;
  }
  return error;
}

absl::StatusOr<StepResult> Trainer::Step(absl::Span<const Batch> micro_batches, double lr,
                                         bool stop) {
  if (ema_ != nullptr && ema_->swapped()) {
    return absl::FailedPreconditionError(
        "a step while the average of the weights is swapped in; swap it back first");
  }
  ZEROTH_RETURN_IF_ERROR(ExpectOneShape(micro_batches));
  return Guarded([&] { return WholeStep(micro_batches, lr, stop); });
}

absl::StatusOr<StepResult> Trainer::WholeStep(absl::Span<const Batch> micro_batches, double lr,
                                              bool stop) {
  ZEROTH_ASSIGN_OR_RETURN(StepResult result, TimedStep(micro_batches, lr, stop));
  result.loss_scale = loss_scale();
  if (loss_scaler_.has_value() && !result.outlier) {
    const bool explained = loss_scaler_->Update(/*finite=*/!result.skipped);
    result.overflowed = result.skipped && explained;
  }
  // Only now is it known whether the step counts; nobody waits for this.
  if (ema_ != nullptr && !result.skipped) ZEROTH_RETURN_IF_ERROR(ema_->Update());
  return result;
}

absl::StatusOr<StepResult> Trainer::StepWithoutAverage(absl::Span<const Batch> micro_batches,
                                                       double lr, bool stop) {
  if (looks_for_outliers()) return JudgedStep(micro_batches, lr, stop);
  // One exchange for both: a rank alone must not decide to leave the others in the next collective.
  StepInputs inputs;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor norm_and_scale,
                          EnqueueOrPlayStep(micro_batches, lr, stop, inputs));
  // Only here, with the whole step enqueued, does the host wait for the device.
  ZEROTH_ASSIGN_OR_RETURN(const StepResult result, ReadResult(inputs, norm_and_scale));
  if (result.skipped) optimizer_->ForgetSkippedStep();
  return result;
}

absl::StatusOr<std::vector<ShardState>> Trainer::states() const {
  std::vector<ShardState> states = optimizer_->states();
  if (ema_ == nullptr) return states;
  ZEROTH_ASSIGN_OR_RETURN(std::vector<ShardState> averages, ema_->states());
  states.insert(states.end(), averages.begin(), averages.end());
  return states;
}

TrainerCounts Trainer::counts() const {
  TrainerCounts counts;
  counts.optimizer_steps = optimizer_->step();
  if (ema_ != nullptr) counts.ema_updates = ema_->updates();
  if (loss_scaler_.has_value()) counts.loss_scaler = loss_scaler_->state();
  counts.losses = loss_detector_.state();
  counts.grad_norms = grad_norm_detector_.state();
  return counts;
}

absl::Status Trainer::Restore(const TrainerCounts& counts) {
  if (loss_scaler_.has_value() && counts.loss_scaler.has_value()) {
    ZEROTH_RETURN_IF_ERROR(loss_scaler_->Restore(*counts.loss_scaler));
  }
  ZEROTH_RETURN_IF_ERROR(loss_detector_.Restore(counts.losses));
  ZEROTH_RETURN_IF_ERROR(grad_norm_detector_.Restore(counts.grad_norms));
  optimizer_->set_step(counts.optimizer_steps);
  if (ema_ != nullptr) ema_->set_updates(counts.ema_updates);
  return absl::OkStatus();
}

absl::StatusOr<float> Trainer::Evaluate(absl::Span<const Batch> micro_batches) {
  ZEROTH_RETURN_IF_ERROR(ExpectOneShape(micro_batches));
  return Guarded([&]() -> absl::StatusOr<float> {
    ZEROTH_ASSIGN_OR_RETURN(const StepInputs inputs, MakeInputs(micro_batches));
    ZEROTH_RETURN_IF_ERROR(inputs.Fill(micro_batches, {}));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor losses, inputs.MakeLosses());
    const NoGradient inference(sharded_->tape());
    for (int64_t i = 0; i < inputs.micro_batches(); ++i) {
      ZEROTH_ASSIGN_OR_RETURN(const Value loss, Loss(inputs, i));
      ZEROTH_RETURN_IF_ERROR(inputs.KeepLoss(losses, i, loss.data));
    }
    ZEROTH_RETURN_IF_ERROR(inputs.ShareLosses(losses, "evaluation loss"));
    ZEROTH_ASSIGN_OR_RETURN(const StepInputs::Shared shared, inputs.ReadShared());
    return shared.loss;
  });
}

absl::StatusOr<Tensor> Trainer::Logits(absl::Span<const int32_t> tokens, int64_t from,
                                       KeyValueCache* cache) {
  return Guarded([&]() -> absl::StatusOr<Tensor> {
    ZEROTH_ASSIGN_OR_RETURN(
        const Tensor input,
        Tensor::FromHost<int32_t>(*device_, Shape({1, static_cast<int64_t>(tokens.size())}), tokens,
                                  MemoryCategory::kActivations));
    return model_->Logits(sharded_->context(), input, from, cache);
  });
}

}  // namespace zeroth
