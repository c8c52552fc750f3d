// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/weight_ema.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status ValidateEmaDecay(double decay) {
  if (decay >= 0 && decay < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("average of weights: decay = ", decay,
                   ", expected a number from 0 up to, but not including, "
                   "1"));
}

absl::StatusOr<std::unique_ptr<WeightEma>> WeightEma::Create(Sharding& sharding, Kernels& kernels,
                                                             double decay) {
  ZEROTH_RETURN_IF_ERROR(ValidateEmaDecay(decay));
  std::unique_ptr<WeightEma> ema(new WeightEma(sharding, kernels, decay));
  for (Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->segment_count(); ++i) {
      const ShardLayout::Segment& layout = unit->segment_layout(i);
      if (!layout.trainable) continue;
      State state{unit, i, Tensor()};
      ZEROTH_ASSIGN_OR_RETURN(state.average,
                              Tensor::Zeros(sharding.device(), Shape({layout.shard_numel}),
                                            DType::kFloat32, MemoryCategory::kOptimizer));
      ema->states_.push_back(state);
    }
  }
  return ema;
}

const Tensor& WeightEma::WeightsOf(const State& state) const {
  return state.unit->segment(state.segment).shard;
}

absl::Status WeightEma::Copy(const Tensor& to, const Tensor& from) {
  return sharding_.device().Copy(to.raw_data(), from.raw_data(), to.bytes(), kernels_.stream());
}

absl::Status WeightEma::Update() {
  if (swapped_) {
    return absl::FailedPreconditionError(
        "average of weights: it lies in the weights' place now; swap it back before training on");
  }
  for (const State& state : states_) {
    const Tensor& weights = WeightsOf(state);
    ZEROTH_RETURN_IF_ERROR(
        updates_ == 0 ? Copy(state.average, weights)
                      : kernels_.Lerp(state.average, weights, static_cast<float>(1 - decay_)));
  }
  ++updates_;
  return absl::OkStatus();
}

absl::Status WeightEma::SwapSegment(const State& state, const Tensor& scratch) {
  const Tensor& weights = WeightsOf(state);
  for (int64_t begin = 0; begin < weights.numel(); begin += scratch.numel()) {
    const Shape shape({std::min(scratch.numel(), weights.numel() - begin)});
    const Tensor piece = weights.View(begin, shape);
    const Tensor average = state.average.View(begin, shape);
    const Tensor kept = scratch.View(0, shape);
    ZEROTH_RETURN_IF_ERROR(Copy(kept, piece));
    ZEROTH_RETURN_IF_ERROR(Copy(piece, average));
    ZEROTH_RETURN_IF_ERROR(Copy(average, kept));
  }
  return absl::OkStatus();
}

absl::Status WeightEma::Swap() {
  for (const State& state : states_) {
    ZEROTH_RETURN_IF_ERROR(state.unit->ExpectState(UnitState::kSharded, "swap in the average"));
    ZEROTH_RETURN_IF_ERROR(
        state.unit->ExpectGradientState(GradientState::kNone, "swap in the average"));
  }
  if (updates_ > 0) {
    constexpr int64_t kScratchNumel = int64_t{1} << 20;
    int64_t largest = 1;
    for (const State& state : states_) largest = std::max(largest, state.average.numel());
    ZEROTH_ASSIGN_OR_RETURN(
        const Tensor scratch,
        Tensor::Empty(sharding_.device(), Shape({std::min(largest, kScratchNumel)}),
                      DType::kFloat32, MemoryCategory::kWorkspace));
    for (const State& state : states_) ZEROTH_RETURN_IF_ERROR(SwapSegment(state, scratch));
    // Gathers on other streams, which know nothing of this, must find it done.
    ZEROTH_RETURN_IF_ERROR(kernels_.stream().Synchronize());
  }
  swapped_ = !swapped_;
  return absl::OkStatus();
}

std::vector<ShardState> WeightEma::states() const {
  ZEROTH_CHECK(!swapped_);
  std::vector<ShardState> states;
  for (const State& state : states_) {
    states.push_back({state.unit, state.segment, "ema", state.average});
  }
  return states;
}

int64_t WeightEma::MemoryBytes() const {
  int64_t bytes = 0;
  for (const State& state : states_) bytes += static_cast<int64_t>(state.average.bytes());
  return bytes;
}

}  // namespace zeroth
