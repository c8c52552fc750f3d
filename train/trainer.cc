// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/trainer.h"

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
  trainer->model_ = std::move(model);
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

absl::Status Trainer::MeanOverRanks(absl::Span<float> values, absl::string_view label) {
  if (world_->size() == 1) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor tensor,
      Tensor::FromHost<float>(*device_, Shape({static_cast<int64_t>(values.size())}),
                              absl::Span<const float>(values), MemoryCategory::kCommunication));
  Stream& stream = device_->compute_stream();
  ZEROTH_RETURN_IF_ERROR(world_->AllReduce(tensor, ReduceOp::kMean, stream, label));
  ZEROTH_RETURN_IF_ERROR(
      device_->CopyToHost(values.data(), tensor.raw_data(), tensor.bytes(), stream));
  return stream.Synchronize();
}

absl::StatusOr<float> Trainer::Loss(const Batch& batch) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor inputs,
                          Upload(batch.inputs, Shape({batch.batch, batch.seq})));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor targets,
                          Upload(batch.targets, Shape({batch.batch, batch.seq})));
  ZEROTH_ASSIGN_OR_RETURN(const Value loss, model_->Loss(*context_, inputs, targets));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> value, loss.data.ToHost<float>());
  return value[0];
}

absl::StatusOr<float> Trainer::ForwardBackward(const Batch& batch) {
  tape_.set_recording(true);
  const absl::StatusOr<float> loss = Loss(batch);
  if (!loss.ok()) {
    tape_.Clear();
    return loss.status();
  }
  ZEROTH_RETURN_IF_ERROR(tape_.Backward());
  ZEROTH_RETURN_IF_ERROR(sharding_->scheduler().FinishBackward());
  return loss;
}

absl::StatusOr<StepResult> Trainer::Step(const Batch& batch, double lr, bool stop) {
  ZEROTH_ASSIGN_OR_RETURN(const float loss, ForwardBackward(batch));
  ZEROTH_ASSIGN_OR_RETURN(const ClipResult clip,
                          ClipGradNorm(*sharding_, *kernels_, clip_grad_norm_));
  ZEROTH_RETURN_IF_ERROR(optimizer_->Step(lr, clip.scale));
  ZEROTH_RETURN_IF_ERROR(sharding_->scheduler().EndStep());
  // One exchange for both: a rank alone must not decide to leave the others in the next collective.
  std::vector<float> shared = {loss, stop ? 1.0f : 0.0f};
  ZEROTH_RETURN_IF_ERROR(MeanOverRanks(absl::MakeSpan(shared), "loss"));
  StepResult result;
  result.loss = shared[0];
  result.grad_norm = clip.norm;
  result.stop = shared[1] > 0;
  return result;
}

absl::StatusOr<float> Trainer::Evaluate(const Batch& batch) {
  tape_.set_recording(false);
  const absl::StatusOr<float> loss = Loss(batch);
  tape_.set_recording(true);
  ZEROTH_RETURN_IF_ERROR(loss.status());
  std::vector<float> shared = {*loss};
  ZEROTH_RETURN_IF_ERROR(MeanOverRanks(absl::MakeSpan(shared), "evaluation loss"));
  return shared[0];
}

absl::StatusOr<Tensor> Trainer::Logits(absl::Span<const int32_t> tokens, int64_t from) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor input,
                          Upload(tokens, Shape({1, static_cast<int64_t>(tokens.size())})));
  return model_->Logits(*context_, input, from);
}

}  // namespace zeroth
