// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/adamw.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status ValidateAdamWOptions(const AdamWOptions& options) {
  const auto is_decay_rate = [](double beta) { return beta >= 0 && beta < 1; };
  const auto is_size = [](double value) { return std::isfinite(value) && value >= 0; };
  if (is_decay_rate(options.beta1) && is_decay_rate(options.beta2) && is_size(options.eps) &&
      is_size(options.weight_decay)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("AdamW: beta1 = ", options.beta1, ", beta2 = ", options.beta2,
                   ", eps = ", options.eps, ", weight_decay = ", options.weight_decay,
                   "; expected betas in [0, 1) and finite eps and weight_decay of at least 0"));
}

AdamW::AdamW(Sharding& sharding, Kernels& kernels, const AdamWOptions& options)
    : sharding_(sharding), kernels_(kernels), options_(options) {}

absl::StatusOr<std::unique_ptr<AdamW>> AdamW::Create(Sharding& sharding, Kernels& kernels,
                                                     const AdamWOptions& options) {
  ZEROTH_RETURN_IF_ERROR(ValidateAdamWOptions(options));
  std::unique_ptr<AdamW> optimizer(new AdamW(sharding, kernels, options));
  ZEROTH_ASSIGN_OR_RETURN(optimizer->device_coefficients_,
                          Tensor::Empty(sharding.device(), Shape({2, kAdamWCoefficients}),
                                        DType::kFloat32, MemoryCategory::kWorkspace));
  for (Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->segment_count(); ++i) {
      const ShardLayout::Segment& layout = unit->segment_layout(i);
      if (!layout.trainable) continue;
      State state{unit, i, Tensor(), Tensor()};
      for (Tensor* moment : {&state.m, &state.v}) {
        ZEROTH_ASSIGN_OR_RETURN(
            *moment, Tensor::Zeros(sharding.device(), Shape({layout.shard_numel}), DType::kFloat32,
                                   MemoryCategory::kOptimizer));
      }
      optimizer->states_.push_back(std::move(state));
    }
  }
  return optimizer;
}

// Neighbours with the same decay are one kernel call. The gap between them is zero in parameters
// and gradients, and an update of zeros by zeros is zero.
std::vector<AdamW::Range> AdamW::Ranges(const State& state) {
  std::vector<Range> ranges;
  bool joins = false;  // the last parameter seen was updated
  for (const int index : state.unit->segment_layout(state.segment).parameters) {
    const ShardLayout::Piece piece = state.unit->PieceOf(index);
    if (piece.numel() == 0) continue;
    const Parameter& parameter = *state.unit->parameters()[static_cast<size_t>(index)];
    if (!parameter.requires_grad()) {
      joins = false;
      continue;
    }
    if (joins && ranges.back().decay == parameter.decay()) {
      ranges.back().numel = piece.shard_offset + piece.numel() - ranges.back().offset;
    } else {
      ranges.push_back({piece.shard_offset, piece.numel(), parameter.decay()});
    }
    joins = true;
  }
  return ranges;
}

absl::Status AdamW::ExpectReducedGradients() const {
  for (const State& state : states_) {
    ZEROTH_RETURN_IF_ERROR_WITH(state.unit->ExpectGradientState(GradientState::kReduced, "update"),
                                "AdamW: call Scheduler::FinishBackward first");
  }
  return absl::OkStatus();
}

absl::Status AdamW::Step(double lr, double grad_scale, const Tensor& grad_factor) {
  ZEROTH_RETURN_IF_ERROR(ExpectReducedGradients());
  ZEROTH_RETURN_IF_ERROR(BeginStep(lr, grad_scale));
  return Update(grad_factor);
}

absl::Status AdamW::BeginStep(double lr, double grad_scale) {
  ++step_;
  AdamWArgs args;
  args.lr = lr;
  args.beta1 = options_.beta1;
  args.beta2 = options_.beta2;
  args.eps = options_.eps;
  args.eps_mode = options_.eps_mode;
  args.correction1 = 1 - std::pow(options_.beta1, static_cast<double>(step_));
  args.correction2 = 1 - std::pow(options_.beta2, static_cast<double>(step_));
  args.grad_scale = grad_scale;
  for (const bool decay : {false, true}) {
    args.weight_decay = decay ? options_.weight_decay : 0.0;
    coefficients_[decay ? 1 : 0] = DeriveAdamWCoefficients(args);
  }
  return sharding_.device().CopyFromHost(device_coefficients_.raw_data(), coefficients_.data(),
                                         sizeof(coefficients_), kernels_.stream());
}

absl::Status AdamW::Update(const Tensor& grad_factor) {
  ZEROTH_RETURN_IF_ERROR(ExpectReducedGradients());
  AdamWArgs args;
  args.grad_factor = grad_factor;
  for (const State& state : states_) {
    const Unit::Segment& segment = state.unit->segment(state.segment);
    for (const Range& range : Ranges(state)) {
      const Shape shape({range.numel});
      args.param = segment.shard.View(range.offset, shape);
      args.grad = segment.grad_shard.View(range.offset, shape);
      args.m = state.m.View(range.offset, shape);
      args.v = state.v.View(range.offset, shape);
      args.coefficients =
          device_coefficients_.View(range.decay ? kAdamWCoefficients : 0, {kAdamWCoefficients});
      ZEROTH_RETURN_IF_ERROR_WITH(kernels_.AdamW(args),
                                  absl::StrCat("unit '", state.unit->name(), "'"));
    }
  }
  return absl::OkStatus();
}

std::vector<AdamW::StateTensor> AdamW::state() const {
  std::vector<StateTensor> tensors;
  for (const State& state : states_) {
    tensors.push_back({state.unit, state.segment, "m", state.m});
    tensors.push_back({state.unit, state.segment, "v", state.v});
  }
  return tensors;
}

int64_t AdamW::MemoryBytes() const {
  int64_t bytes = 0;
  for (const State& state : states_)
    bytes += static_cast<int64_t>(state.m.bytes() + state.v.bytes());
  return bytes;
}

}  // namespace zeroth
