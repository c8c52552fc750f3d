// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/clip_grad_norm.h"

#include <cmath>
#include <utility>
#include <vector>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/sum_of_squares/sum_of_squares.h"
#include "zeroth/strategies/offload.h"
#include "zeroth/strategies/state_passes.h"

namespace zeroth {
namespace {

// Adds the squares that this rank counts: of several ranks that hold an element, one counts it.
absl::Status AddOwnSquares(Sharding& sharding, Kernels& kernels, const Tensor& sum) {
  std::vector<Tensor> in_memory;
  std::vector<StatePass> passes;
  for (Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->segment_count(); ++i) {
      const ShardLayout::Segment& layout = unit->segment_layout(i);
      if (!layout.trainable) continue;
      ZEROTH_RETURN_IF_ERROR_WITH(
          unit->ExpectGradientState(GradientState::kReduced, "take the norm"),
          "gradient norm: call Scheduler::FinishBackward first");
      if (!sharding.AddsToStatistics(*unit, i)) continue;
      // Gaps and padding are zeros, which add nothing.
      StatePass pass;
      pass.operands = {{unit->GradientShardState(i)}};
      if (!pass.is_staged()) {
        in_memory.push_back(pass.operands[0].state.tensor());
        continue;
      }
      pass.body = [&](int64_t, absl::Span<const Tensor> chunk) {
        return kernels::AddSquares(kernels, chunk[0], sum);
      };
      passes.push_back(std::move(pass));
    }
  }
  ZEROTH_RETURN_IF_ERROR(sharding.scheduler().ExpectBackwardFinished("take the gradient norm"));
  if (!in_memory.empty()) {
    ZEROTH_RETURN_IF_ERROR_WITH(kernels::AddSquares(kernels, in_memory, sum), "gradient norm");
  }
  return Annotate(sharding.offload().passes().Run(passes), "gradient norm");
}

// Returns the exact sum of squares of all ranks, as words of an ExactSum.
absl::StatusOr<Tensor> SumOfSquares(Sharding& sharding, Kernels& kernels) {
  Device& device = sharding.device();
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor sum,
      Tensor::Zeros(device, Shape({ExactSum::kWords}), DType::kInt64, MemoryCategory::kWorkspace));
  ZEROTH_RETURN_IF_ERROR(AddOwnSquares(sharding, kernels, sum));
  Communicator& group = sharding.statistics_group();
  if (group.size() > 1) {
    ZEROTH_RETURN_IF_ERROR(
        group.AllReduce(sum, ReduceOp::kSum, device.compute_stream(), "gradient norm"));
  }
  return sum;
}

}  // namespace

absl::StatusOr<Tensor> GradNormAndScale(Sharding& sharding, Kernels& kernels, double max_norm,
                                        double grad_scale) {
  if (std::isnan(max_norm)) {
    return absl::InvalidArgumentError(
        "gradient norm: the largest norm is nan, expected a number; 0 clips nothing");
  }
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, SumOfSquares(sharding, kernels));
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor norm_and_scale,
      Tensor::Empty(sharding.device(), Shape({2}), DType::kFloat32, MemoryCategory::kWorkspace));
  ZEROTH_RETURN_IF_ERROR(kernels::ClipFactor(kernels, sum, grad_scale, max_norm, norm_and_scale));
  return norm_and_scale;
}

}  // namespace zeroth
