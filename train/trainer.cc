// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/trainer.h"

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/optim/clip_grad_norm.h"

namespace zeroth {

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(Communicator& world, Device& device,
                                                         std::unique_ptr<LanguageModel> model,
                                                         const TrainerOptions& options) {
  std::unique_ptr<Trainer> trainer(new Trainer);
  trainer->world_ = &world;
  trainer->device_ = &device;
  trainer->clip_grad_norm_ = options.clip_grad_norm;
  trainer->sync_every_micro_batch_ = options.sync_every_micro_batch;
  trainer->model_ = std::move(model);
  SetActivationCheckpointing(*trainer->model_, options.activation_checkpointing);
  ZEROTH_ASSIGN_OR_RETURN(trainer->kernels_,
                          KernelRegistry::Create(device, device.compute_stream()));
  const WrapPlan plan = PlanUnits(*trainer->model_, options.wrap);
  ZEROTH_ASSIGN_OR_RETURN(trainer->sharding_,
                          Sharding::Create(world, device, options.sharding, plan.units));
  ZEROTH_ASSIGN_OR_RETURN(trainer->hooks_, ShardingHooks::Attach(plan, *trainer->sharding_));
  ZEROTH_ASSIGN_OR_RETURN(trainer->optimizer_,
                          AdamW::Create(*trainer->sharding_, *trainer->kernels_, options.adamw));
  trainer->context_ = std::make_unique<Context>(device, *trainer->kernels_, trainer->tape_);
  return trainer;
}

absl::StatusOr<Tensor> Trainer::Upload(absl::Span<const int32_t> tokens, Shape shape) {
  return Tensor::FromHost<int32_t>(*device_, std::move(shape), tokens,
                                   MemoryCategory::kActivations);
}

absl::StatusOr<Tensor> Trainer::MakeShared(int64_t losses, float flag) {
  std::vector<float> values(static_cast<size_t>(losses) + 1, 0.0f);
  values.back() = flag;
  return Tensor::FromHost<float>(*device_, Shape({losses + 1}), values,
                                 MemoryCategory::kCommunication);
}

absl::Status Trainer::MeanOverRanks(const Tensor& losses, const Tensor& shared,
                                    absl::string_view label) {
  Stream& stream = device_->compute_stream();
  ZEROTH_RETURN_IF_ERROR(
      device_->Copy(shared.raw_data(), losses.raw_data(), losses.bytes(), stream));
  if (world_->size() == 1) return absl::OkStatus();
  return world_->AllReduce(shared, ReduceOp::kMean, stream, label);
}

absl::StatusOr<Tensor> Trainer::Loss(const Batch& batch) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor inputs,
                          Upload(batch.inputs, Shape({batch.batch, batch.seq})));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor targets,
                          Upload(batch.targets, Shape({batch.batch, batch.seq})));
  ZEROTH_ASSIGN_OR_RETURN(const Value loss, model_->Loss(*context_, inputs, targets));
  return loss.data;
}

absl::Status Trainer::ForwardBackwardOne(const Batch& batch, const Tensor& loss) {
  tape_.set_recording(true);
  const absl::StatusOr<Tensor> value = Loss(batch);
  if (!value.ok()) {
    tape_.Clear();
    return value.status();
  }
  ZEROTH_RETURN_IF_ERROR(
      device_->Copy(loss.raw_data(), value->raw_data(), loss.bytes(), device_->compute_stream()));
  ZEROTH_RETURN_IF_ERROR(tape_.Backward());
  return sharding_->scheduler().FinishBackward();
}

absl::StatusOr<Tensor> Trainer::ForwardBackward(absl::Span<const Batch> micro_batches) {
  if (micro_batches.empty()) {
    return absl::InvalidArgumentError("a step of no micro-batches, expected at least one");
  }
  for (const Batch& batch : micro_batches) {
    if (batch.batch == micro_batches[0].batch && batch.seq == micro_batches[0].seq) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "micro-batches of ", micro_batches[0].batch, " x ", micro_batches[0].seq, " and ",
        batch.batch, " x ", batch.seq, " tokens, expected one shape: their means are averaged"));
  }
  const auto count = static_cast<int64_t>(micro_batches.size());
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor losses,
      Tensor::Empty(*device_, Shape({count}), DType::kFloat32, MemoryCategory::kCommunication));
  context_->set_loss_scale(1.0f / static_cast<float>(count));
  Scheduler& scheduler = sharding_->scheduler();
  for (int64_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    scheduler.SetRequiresGradientSync(sync_every_micro_batch_ || last);
    scheduler.SetIsLastBackward(last);
    ZEROTH_RETURN_IF_ERROR(
        ForwardBackwardOne(micro_batches[static_cast<size_t>(i)], losses.View(i, Shape({1}))));
  }
  return losses;
}

absl::StatusOr<StepResult> Trainer::Step(absl::Span<const Batch> micro_batches, double lr,
                                         bool stop) {
  // One exchange for both: a rank alone must not decide to leave the others in the next collective.
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor shared,
      MakeShared(static_cast<int64_t>(micro_batches.size()), stop ? 1.0f : 0.0f));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor losses, ForwardBackward(micro_batches));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor norm_and_scale,
                          GradNormAndScale(*sharding_, *kernels_, clip_grad_norm_));
  ZEROTH_RETURN_IF_ERROR(
      optimizer_->Step(lr, /*grad_scale=*/1.0, norm_and_scale.View(1, Shape({1}))));
  ZEROTH_RETURN_IF_ERROR(sharding_->scheduler().EndStep());
  ZEROTH_RETURN_IF_ERROR(MeanOverRanks(losses, shared, "loss"));
  // Only here, with the whole step enqueued, does the host wait for the device.
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> means, shared.ToHost<float>());
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> norm, norm_and_scale.ToHost<float>());
  StepResult result;
  const double sum = std::accumulate(means.begin(), means.end() - 1, 0.0);
  result.loss = static_cast<float>(sum / static_cast<double>(micro_batches.size()));
  result.grad_norm = static_cast<double>(norm[0]);
  result.stop = means.back() > 0;
  result.skipped = !std::isfinite(norm[0]);
  if (result.skipped) optimizer_->ForgetSkippedStep();
  return result;
}

absl::StatusOr<float> Trainer::Evaluate(const Batch& batch) {
  tape_.set_recording(false);
  const absl::StatusOr<Tensor> loss = Loss(batch);
  tape_.set_recording(true);
  ZEROTH_RETURN_IF_ERROR(loss.status());
  ZEROTH_ASSIGN_OR_RETURN(const Tensor shared, MakeShared(1, 0.0f));
  ZEROTH_RETURN_IF_ERROR(MeanOverRanks(*loss, shared, "evaluation loss"));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> means, shared.ToHost<float>());
  return means[0];
}

absl::StatusOr<Tensor> Trainer::Logits(absl::Span<const int32_t> tokens, int64_t from) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor input,
                          Upload(tokens, Shape({1, static_cast<int64_t>(tokens.size())})));
  return model_->Logits(*context_, input, from);
}

}  // namespace zeroth
