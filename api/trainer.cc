// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/trainer.h"

#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/api/nonfinite_finder.h"
#include "zeroth/api/router_biases.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/fp8/fp8.h"
#include "zeroth/kernels/vocabulary/vocabulary.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/nn/layers/moe.h"
#include "zeroth/optim/adamw.h"

namespace zeroth {

namespace {

absl::Status ValidateOutlierOptions(const TrainerOptions& options) {
  for (const double limit : {options.skip_loss_zscore, options.skip_grad_norm_zscore}) {
    if (!(limit >= 0) || limit >= OutlierDetector::LargestZScore()) {
      return InvalidArgument("a z-score limit of ", limit,
                             ": expected 0 (none), or one that a step can exceed: below ",
                             OutlierDetector::LargestZScore(), " in a window of ",
                             OutlierDetector::kWindow);
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

// Reduces `model` to this rank's part of each layer (options.tensor), before its parameters join
// units.
absl::Status DivideForTraining(LanguageModel& model, Rank& rank, const TrainerOptions& options) {
  const TensorParallelOptions& tensor = options.tensor;
  if (tensor.size == 1 && !tensor.enabled()) return absl::OkStatus();
  if (tensor.size < 1 || rank.world_size() % tensor.size != 0) {
    return InvalidArgument(tensor.size, " tensor ranks do not divide the ", rank.world_size(),
                           " of the world");
  }
  if (options.record_steps) {
    return absl::UnimplementedError(
        "recorded steps with parameters that are divided among tensor ranks");
  }
  ZEROTH_RETURN_IF_ERROR(kernels::SupportsDividedVocabulary(rank.kernels()));
  return DivideModel(model, tensor, rank.index() % tensor.size);
}

WrapPlan PlanFor(Module& model, const TrainerOptions& options) {
  WrapPlan plan = PlanUnits(model, options.fp32_norms ? WrapNorms(options.wrap) : options.wrap);
  MixedPrecision norms;
  norms.output_dtype = options.sharding.mixed_precision.param_dtype;
  for (size_t i = 0; i < plan.units.size(); ++i) {
    const bool is_norm = plan.modules[i]->role() == Module::Role::kNorm;
    if (options.fp32_norms && is_norm) plan.units[i].precision = norms;
    plan.units[i].name = absl::StrCat(options.unit_prefix, plan.units[i].name);
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
  if (options.record_steps) {
    ZEROTH_RETURN_IF_ERROR(CanRecordSteps(rank.world(), rank.device()));
  }
  ZEROTH_RETURN_IF_ERROR(ValidateOutlierOptions(options));
  ZEROTH_RETURN_IF_ERROR(model->CheckLogits());
  std::unique_ptr<Trainer> trainer(new Trainer);
  trainer->rank_ = &rank;
  trainer->options_ = options;
  if (options.loss_scaler.has_value()) {
    ZEROTH_ASSIGN_OR_RETURN(trainer->loss_scaler_, LossScaler::Create(*options.loss_scaler));
  }
  trainer->model_ = std::move(model);
  trainer->adapters_off_is_reference_ =
      !LoraAdapters(*trainer->model_).empty() && SavedParameters(*trainer->model_).empty();
  trainer->expert_layers_ = ModulesOf<MoeMlp>(*trainer->model_);
  ZEROTH_RETURN_IF_ERROR_WITH(DivideForTraining(*trainer->model_, rank, options),
                              "tensor parallelism");
  SetActivationCheckpointing(*trainer->model_, options.activation_checkpointing);
  Kernels& kernels = rank.kernels();
  if (!FindFp8Layers(*trainer->model_).in_fp8.empty()) {
    ZEROTH_RETURN_IF_ERROR_WITH(kernels::SupportsFp8(kernels), "fp8");
    if (options.sharding.mixed_precision.param_dtype == DType::kFloat32) {
      return absl::InvalidArgumentError(
          "fp8: parameters are computed in fp32, expected bf16 or fp16 (param_dtype), the output "
          "types of fp8 matmuls");
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
  ZEROTH_RETURN_IF_ERROR(ValidateRouterBiasRate(options.router_bias_rate, trainer->expert_layers_,
                                                trainer->sharding()));
  const AllocationPlace place(rank.device().allocator(), "optimizer", options.optimizer);
  OptimizerOptions optimizer = options.optimizer_options;
  optimizer.draws_of_undivided |= options.tensor.deterministic > 0;
  ZEROTH_ASSIGN_OR_RETURN(trainer->optimizer_,
                          OptimizerRegistry::Create(options.optimizer, trainer->sharding(), kernels,
                                                    optimizer, options.parameter_groups));
  if (options.ema_decay != 0) {
    ZEROTH_ASSIGN_OR_RETURN(trainer->ema_,
                            WeightEma::Create(trainer->sharding(), kernels, options.ema_decay));
  }
  return trainer;
}

absl::Status Trainer::SetTeacher(std::unique_ptr<Trainer> teacher) {
  if (teacher->rank_ != rank_) {
    return absl::InvalidArgumentError(
        "a teacher of another rank, expected one that Trainer::Create made with this trainer's "
        "Rank: they share its memory and kernels");
  }
  for (const Parameter* parameter : teacher->sharding().parameters()) {
    if (!parameter->requires_grad()) continue;
    return InvalidArgument("a teacher whose parameter '", parameter->name(),
                           "' takes gradients, expected a frozen model: call "
                           "set_requires_grad(false) before Trainer::Create");
  }
  const int64_t vocabulary = model_->vocab_size();
  if (teacher->model().vocab_size() != vocabulary) {
    return InvalidArgument("a teacher with a vocabulary of ", teacher->model().vocab_size(),
                           " tokens, expected the student's ", vocabulary);
  }
  if (teacher->options_.tensor.size != options_.tensor.size ||
      teacher->options_.tensor.pieces() != options_.tensor.pieces()) {
    return InvalidArgument("a teacher on ", teacher->options_.tensor.size,
                           " tensor ranks, expected it divided as the student, on ",
                           options_.tensor.size);
  }
  if (options_.preference.has_value()) {
    return absl::InvalidArgumentError(
        "a teacher, but TrainerOptions::preference is set; expected one of them");
  }
  if (options_.record_steps || teacher->model().scores()) {
    return Unimplemented("a teacher ", options_.record_steps
                                           ? "in recorded steps"
                                           : "whose head scores texts and predicts no tokens");
  }
  teacher_ = std::move(teacher);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Trainer::ForwardBackward(absl::Span<const Batch> micro_batches) {
  return Guarded([&]() -> absl::StatusOr<Tensor> {
    ZEROTH_RETURN_IF_ERROR(ExpectOneShape(micro_batches));
    ZEROTH_ASSIGN_OR_RETURN(const StepInputs inputs, MakeInputs(micro_batches));
    TrainingStep step(*sharded_, StepOptions(inputs));
    ZEROTH_ASSIGN_OR_RETURN(Tensor losses, ForwardBackward(step, inputs));
    step.Release();
    return losses;
  });
}

absl::StatusOr<StepInputs> Trainer::MakeInputs(absl::Span<const Batch> micro_batches,
                                               const RankReport& report) const {
  std::vector<int64_t> experts;
  for (const MoeMlp* layer : expert_layers_) experts.push_back(layer->experts());
  ZEROTH_ASSIGN_OR_RETURN(StepInputs inputs, StepInputs::Create(world(), device(), micro_batches,
                                                                options_.deterministic_batch,
                                                                options_.tensor.size, experts));
  ZEROTH_RETURN_IF_ERROR(inputs.Fill(micro_batches, report));
  return inputs;
}

TrainingStepOptions Trainer::StepOptions(const StepInputs& inputs) const {
  // Without a deterministic batch, the reduction divides by the number of ranks.
  return {.micro_batches = inputs.micro_batches(),
          .loss_divisor = options_.deterministic_batch,
          .loss_scale = loss_scale(),
          .sync_every_micro_batch = options_.sync_every_micro_batch};
}

absl::StatusOr<Tensor> Trainer::ForwardBackward(TrainingStep& step, const StepInputs& inputs,
                                                NonFiniteFinder* finder) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor losses, inputs.MakeLosses());
  const int64_t data_rank = world().rank() / options_.tensor.size;
  for (size_t layer = 0; layer < expert_layers_.size(); ++layer) {
    expert_layers_[layer]->set_counts(inputs.expert_counts(layer));
  }
  if (finder != nullptr) finder->set_place("the forward that estimates the KL");
  ZEROTH_RETURN_IF_ERROR(ComputeKl(inputs));
  for (int64_t i = 0; i < inputs.micro_batches(); ++i) {
    // A recording would replay the draws of one step in all later ones.
    if (!options_.record_steps) {
      const int64_t samples = inputs.tokens(i).dim(0);
      step.context().set_draws(StepDraws{.seed = options_.dropout_seed,
                                         .step = optimizer_->step(),
                                         .first_sample = (i * data_ranks() + data_rank) * samples});
    }
    ZEROTH_ASSIGN_OR_RETURN(const MicroBatchLoss loss, Loss(inputs, i, finder));
    ZEROTH_RETURN_IF_ERROR(inputs.SetLoss(losses, i, loss.numbers));
    if (finder != nullptr) finder->EnterPass("the backward", i);
    ZEROTH_RETURN_IF_ERROR(step.Backward(loss.loss));
  }
  for (MoeMlp* layer : expert_layers_) layer->set_counts(Tensor());
  return losses;
}

absl::Status Trainer::Begin() {
  if (!status_.ok()) {
    return FailedPrecondition("the trainer cannot continue after an earlier error (",
                              status_.ToString(),
                              "); make a new one, in a new world, from what was saved before");
  }
  updating_ = false;
  // Clears the inputs that an earlier call's loss left in the context.
  sharded_->context().set_document_starts(Tensor());
  sharded_->context().set_token_divisor(Tensor());
  if (!failed_ || world().size() == 1) return absl::OkStatus();
  // If a rank failed alone, the others are in another call here, and all ranks get an error.
  Stream& stream = device().compute_stream();
  absl::Status met = world().Barrier(
      stream, absl::StrCat("a step after one that failed, after ", optimizer_->step(), " updates"));
  if (met.ok()) met = stream.Synchronize();
  if (!met.ok()) return Fail(met);
  failed_ = false;
  return absl::OkStatus();
}

absl::Status Trainer::Fail(const absl::Status& error) {
  sharded_->tape().Clear();
  absl::Status abandoned = sharding().scheduler().Abandon();
  if (teacher_ != nullptr) abandoned.Update(teacher_->sharding().scheduler().Abandon());
  if (updating_ || !abandoned.ok()) {
    status_ = error;
  } else {
    failed_ = true;
  }
  return error;
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

absl::StatusOr<StepResult> Trainer::Evaluate(absl::Span<const Batch> micro_batches, bool stop) {
  return Guarded([&]() -> absl::StatusOr<StepResult> {
    ZEROTH_RETURN_IF_ERROR(ExpectOneShape(micro_batches));
    ZEROTH_ASSIGN_OR_RETURN(const StepInputs inputs, MakeInputs(micro_batches, {stop}));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor losses, inputs.MakeLosses());
    const NoGradient inference(sharded_->tape());
    ZEROTH_RETURN_IF_ERROR(ComputeKl(inputs));
    for (int64_t i = 0; i < inputs.micro_batches(); ++i) {
      ZEROTH_ASSIGN_OR_RETURN(const MicroBatchLoss loss, Loss(inputs, i));
      ZEROTH_RETURN_IF_ERROR(inputs.SetLoss(losses, i, loss.numbers));
    }
    ZEROTH_RETURN_IF_ERROR(inputs.ExchangeLosses(losses, "evaluation loss"));
    ZEROTH_ASSIGN_OR_RETURN(const StepInputs::Exchanged exchanged, inputs.ReadExchanged());
    StepResult result;
    result.loss = exchanged.loss;
    result.preference = exchanged.preference;
    result.stop = exchanged.flag;
    return result;
  });
}

absl::StatusOr<Tensor> Trainer::Logits(absl::Span<const int32_t> tokens, int64_t from,
                                       KeyValueCache* cache) {
  return Guarded([&]() -> absl::StatusOr<Tensor> {
    ZEROTH_ASSIGN_OR_RETURN(
        const Tensor input,
        Tensor::FromHost<int32_t>(device(), Shape({1, static_cast<int64_t>(tokens.size())}), tokens,
                                  MemoryCategory::kActivations));
    return model_->Logits(sharded_->context(), input, from, cache);
  });
}

absl::StatusOr<std::string> Trainer::FindNonFinite(absl::Span<const Batch> micro_batches) {
  return Guarded([&]() -> absl::StatusOr<std::string> {
    ZEROTH_RETURN_IF_ERROR(ExpectOneShape(micro_batches));
    ZEROTH_ASSIGN_OR_RETURN(const StepInputs inputs, MakeInputs(micro_batches));
    NonFiniteFinder finder(sharding(), kernels(),
                           teacher_ == nullptr ? nullptr : &teacher_->sharding());
    TrainingStep step(*sharded_, StepOptions(inputs));
    ZEROTH_RETURN_IF_ERROR(ForwardBackward(step, inputs, &finder).status());
    ZEROTH_RETURN_IF_ERROR(finder.CheckReducedGradients());
    ZEROTH_RETURN_IF_ERROR(step.EndStep());
    ZEROTH_ASSIGN_OR_RETURN(const std::string found, finder.Agree());
    if (!found.empty()) return found;
    return std::string(
        "in a repetition, every value of the step is finite: either the squares of its gradients "
        "add up to more than fp32 holds, or memory or a processor had a transient fault");
  });
}

}  // namespace zeroth
