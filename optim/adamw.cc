// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/offload.h"
#include "zeroth/strategies/state_passes.h"

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
      State state{unit, i, StateTensor(), StateTensor()};
      for (StateTensor* moment : {&state.m, &state.v}) {
        ZEROTH_ASSIGN_OR_RETURN(*moment, optimizer->ZeroMoment(layout.shard_numel));
      }
      optimizer->states_.push_back(std::move(state));
    }
  }
  return optimizer;
}

absl::StatusOr<StateTensor> AdamW::ZeroMoment(int64_t numel) const {
  if (sharding_.offload().options().optimizer) {
    return sharding_.offload().Reserve(numel, DType::kFloat32, "moments");
  }
  return Tensor::Zeros(sharding_.device(), Shape({numel}), DType::kFloat32,
                       MemoryCategory::kOptimizer);
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

absl::Status AdamW::UpdateChunk(absl::Span<const Range> ranges, const Tensor& grad_factor,
                                int64_t begin, absl::Span<const Tensor> chunk) {
  AdamWArgs args;
  args.grad_factor = grad_factor;
  const int64_t end = begin + chunk[0].numel();
  for (const Range& range : ranges) {
    const int64_t first = std::max(begin, range.offset);
    const int64_t last = std::min(end, range.offset + range.numel);
    if (first >= last) continue;
    const Shape shape({last - first});
    args.param = chunk[0].View(first - begin, shape);
    args.grad = chunk[1].View(first - begin, shape);
    args.m = chunk[2].View(first - begin, shape);
    args.v = chunk[3].View(first - begin, shape);
    args.coefficients =
        device_coefficients_.View(range.decay ? kAdamWCoefficients : 0, {kAdamWCoefficients});
    ZEROTH_RETURN_IF_ERROR(kernels_.AdamW(args));
  }
  return absl::OkStatus();
}

std::vector<AdamW::Moment> AdamW::moments() const {
  std::vector<Moment> moments;
  for (const State& state : states_) {
    moments.push_back({state.unit, state.segment, "m", state.m});
    moments.push_back({state.unit, state.segment, "v", state.v});
  }
  return moments;
}

absl::Status AdamW::Update(const Tensor& grad_factor) {
  ZEROTH_RETURN_IF_ERROR(ExpectReducedGradients());
  std::vector<StatePass> passes;
  for (const State& state : states_) {
    std::vector<Range> ranges = Ranges(state);
    if (ranges.empty()) continue;
    StatePass pass;
    pass.operands = {{state.unit->ShardState(state.segment), /*written=*/true},
                     {state.unit->GradientShardState(state.segment)},
                     {state.m, /*written=*/true},
                     {state.v, /*written=*/true}};
    pass.body = [this, &state, &grad_factor, ranges = std::move(ranges)](
                    int64_t begin, absl::Span<const Tensor> chunk) -> absl::Status {
      ZEROTH_RETURN_IF_ERROR_WITH(UpdateChunk(ranges, grad_factor, begin, chunk),
                                  absl::StrCat("unit '", state.unit->name(), "'"));
      return absl::OkStatus();
    };
    passes.push_back(std::move(pass));
  }
  ZEROTH_RETURN_IF_ERROR_WITH(sharding_.offload().passes().Run(passes), "AdamW");
  return absl::OkStatus();
}

int64_t AdamW::MemoryBytes() const {
  int64_t bytes = 0;
  for (const State& state : states_) {
    for (const StateTensor* moment : {&state.m, &state.v}) {
      bytes += moment->numel() * static_cast<int64_t>(SizeOf(moment->dtype()));
    }
  }
  return bytes;
}

}  // namespace zeroth
