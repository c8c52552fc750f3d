// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/weight_ema.h"

#include <algorithm>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"

namespace zeroth {

absl::Status ValidateEmaDecay(double decay) {
  if (decay >= 0 && decay < 1) return absl::OkStatus();
  return InvalidArgument("average of weights: decay = ", decay,
                         ", expected a number from 0 up to, but not including, 1");
}

absl::StatusOr<std::unique_ptr<WeightEma>> WeightEma::Create(Sharding& sharding, Kernels& kernels,
                                                             double decay) {
  ZEROTH_RETURN_IF_ERROR(ValidateEmaDecay(decay));
  for (const Unit* unit : sharding.units()) {
    if (unit->precision().master_dtype == DType::kFloat32) continue;
    return InvalidArgument("average of weights: the masters of unit '", unit->name(), "' are ",
                           DTypeName(unit->precision().master_dtype), ", expected fp32");
  }
  std::unique_ptr<WeightEma> ema(new WeightEma(sharding, kernels, decay));
  for (Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->segment_count(); ++i) {
      const ShardLayout::Segment& layout = unit->segment_layout(i);
      if (!layout.trainable) continue;
      State state{unit, i, StateTensor()};
      ZEROTH_ASSIGN_OR_RETURN(state.average, sharding.ZeroState(layout.shard_numel, DType::kFloat32,
                                                                "average of weights"));
      ema->states_.push_back(std::move(state));
    }
  }
  return ema;
}

absl::Status WeightEma::Copy(const Tensor& to, const Tensor& from) {
  return sharding_.device().Copy(to.raw_data(), from.raw_data(), to.bytes(), kernels_.stream());
}

absl::Status WeightEma::Update() {
  if (swapped_) {
    return absl::FailedPreconditionError(
        "average of weights: it lies in the weights' place now; swap it back before training on");
  }
  const bool first = updates_ == 0;
  ZEROTH_RETURN_IF_ERROR(
      RunPasses(/*writes_weights=*/false, [&](const Tensor& average, const Tensor& weights) {
        return first ? Copy(average, weights)
                     : kernels::Lerp(kernels_, average, weights, static_cast<float>(1 - decay_));
      }));
  ++updates_;
  return absl::OkStatus();
}

absl::Status WeightEma::RunPasses(
    bool writes_weights,
    const std::function<absl::Status(const Tensor& average, const Tensor& weights)>& body) {
  std::vector<StatePass> passes;
  for (const State& state : states_) {
    StatePass& pass = passes.emplace_back();
    pass.operands = {{state.average, /*written=*/true},
                     {state.unit->ShardState(state.segment), writes_weights}};
    pass.body = [&body](int64_t, absl::Span<const Tensor> chunk) {
      return body(chunk[0], chunk[1]);
    };
  }
  return Annotate(sharding_.offload().passes().Run(passes), "average of weights");
}

absl::Status WeightEma::SwapPieces(const Tensor& weights, const Tensor& average,
                                   const Tensor& scratch) {
  for (int64_t begin = 0; begin < weights.numel(); begin += scratch.numel()) {
    const Shape shape({std::min(scratch.numel(), weights.numel() - begin)});
    const Tensor piece = weights.View(begin, shape);
    const Tensor average_piece = average.View(begin, shape);
    const Tensor kept = scratch.View(0, shape);
    ZEROTH_RETURN_IF_ERROR(Copy(kept, piece));
    ZEROTH_RETURN_IF_ERROR(Copy(piece, average_piece));
    ZEROTH_RETURN_IF_ERROR(Copy(average_piece, kept));
  }
  return absl::OkStatus();
}

absl::Status WeightEma::SwapAll() {
  constexpr int64_t kScratchNumel = int64_t{1} << 20;
  int64_t largest = 1;
  for (const State& state : states_) largest = std::max(largest, state.average.numel());
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor scratch,
      Tensor::Empty(sharding_.device(), Shape({std::min(largest, kScratchNumel)}), DType::kFloat32,
                    MemoryCategory::kWorkspace));
  ZEROTH_RETURN_IF_ERROR(
      RunPasses(/*writes_weights=*/true, [&](const Tensor& average, const Tensor& weights) {
        return SwapPieces(weights, average, scratch);
      }));
  // Gathers on other streams do not wait for this work, so it has to be done before they start.
  return kernels_.stream().Synchronize();
}

absl::Status WeightEma::Swap() {
  for (const State& state : states_) {
    ZEROTH_RETURN_IF_ERROR(state.unit->ExpectBetweenSteps("swap in the average"));
  }
  // Units that an evaluation left gathered hold the weights that are swapped out now.
  ZEROTH_RETURN_IF_ERROR_WITH(sharding_.scheduler().EndStep(), "swap in the average");
  if (updates_ > 0) ZEROTH_RETURN_IF_ERROR(SwapAll());
  swapped_ = !swapped_;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ShardState>> WeightEma::states() const {
  if (swapped_) {
    return absl::FailedPreconditionError(
        "average of weights: it lies in the weights' place now; swap it back before it is saved");
  }
  std::vector<ShardState> states;
  for (const State& state : states_) {
    states.push_back({state.unit, state.segment, "ema", state.average});
  }
  return states;
}

}  // namespace zeroth
