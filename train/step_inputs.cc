// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/step_inputs.h"

#include <numeric>
#include <utility>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<StepInputs> StepInputs::Create(Communicator& world, Device& device,
                                              absl::Span<const Batch> micro_batches,
                                              int64_t deterministic_batch) {
  StepInputs inputs;
  inputs.world_ = &world;
  inputs.device_ = &device;
  inputs.is_deterministic_ = deterministic_batch > 0;
  for (const Batch& batch : micro_batches) {
    for (std::vector<Tensor>* const ids : {&inputs.tokens_, &inputs.targets_}) {
      ZEROTH_ASSIGN_OR_RETURN(Tensor tensor,
                              Tensor::Empty(device, Shape({batch.batch, batch.seq}), DType::kInt32,
                                            MemoryCategory::kActivations));
      ids->push_back(std::move(tensor));
    }
  }
  const int64_t losses = inputs.is_deterministic_ ? deterministic_batch : inputs.micro_batches();
  ZEROTH_ASSIGN_OR_RETURN(
      inputs.shared_,
      Tensor::Empty(device, Shape({losses + 1}), DType::kFloat32, MemoryCategory::kCommunication));
  return inputs;
}

absl::Status StepInputs::Fill(absl::Span<const Batch> micro_batches, bool flag) const {
  Stream& stream = device_->compute_stream();
  const auto copy = [&](const auto& values, const Tensor& tensor) {
    ZEROTH_CHECK(static_cast<int64_t>(values.size()) == tensor.numel());
    return device_->CopyFromHost(tensor.raw_data(), values.data(), tensor.bytes(), stream);
  };
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    ZEROTH_RETURN_IF_ERROR(copy(micro_batches[i].inputs, tokens_[i]));
    ZEROTH_RETURN_IF_ERROR(copy(micro_batches[i].targets, targets_[i]));
  }
  std::vector<float> shared(static_cast<size_t>(shared_.numel()), 0.0f);
  shared.back() = flag ? 1.0f : 0.0f;
  ZEROTH_RETURN_IF_ERROR(copy(shared, shared_));
  return stream.Synchronize();
}

absl::StatusOr<Tensor> StepInputs::MakeLosses() const {
  return Tensor::Empty(*device_, Shape({micro_batches()}), DType::kFloat32,
                       MemoryCategory::kCommunication);
}

absl::Status StepInputs::KeepLoss(const Tensor& losses, int64_t i, const Tensor& loss) const {
  const Tensor place = losses.View(i, Shape({1}));
  return device_->Copy(place.raw_data(), loss.raw_data(), place.bytes(), device_->compute_stream());
}

absl::Status StepInputs::ShareLosses(const Tensor& losses, absl::string_view label) const {
  Stream& stream = device_->compute_stream();
  if (!is_deterministic_) {
    ZEROTH_RETURN_IF_ERROR(
        device_->Copy(shared_.raw_data(), losses.raw_data(), losses.bytes(), stream));
  }
  for (int64_t i = 0; is_deterministic_ && i < losses.numel(); ++i) {
    ZEROTH_RETURN_IF_ERROR(
        KeepLoss(shared_, i * world_->size() + world_->rank(), losses.View(i, Shape({1}))));
  }
  if (world_->size() == 1) return absl::OkStatus();
  // Zeros are all that is added to a loss in its place: its bits stay.
  const ReduceOp op = is_deterministic_ ? ReduceOp::kSum : ReduceOp::kMean;
  return world_->AllReduce(shared_, op, stream, label);
}

absl::StatusOr<StepInputs::Shared> StepInputs::ReadShared() const {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, shared_.ToHost<float>());
  const double sum = std::accumulate(values.begin(), values.end() - 1, 0.0);
  return Shared{static_cast<float>(sum / static_cast<double>(values.size() - 1)),
                values.back() > 0};
}

}  // namespace zeroth
