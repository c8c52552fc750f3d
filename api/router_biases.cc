// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/router_biases.h"

#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"

namespace zeroth {

absl::Status ValidateRouterBiasRate(double rate, absl::Span<MoeMlp* const> layers,
                                    const Sharding& sharding) {
  if (rate == 0) return absl::OkStatus();
  if (!(rate > 0) || !std::isfinite(rate)) {
    return InvalidArgument("router_bias_rate: is ", rate, ", expected at least 0");
  }
  bool found = false;
  for (const MoeMlp* layer : layers) {
    if (layer->bias() == nullptr) continue;
    found = true;
    const Unit* const unit = sharding.FindUnit(layer->bias()->name());
    if (unit != nullptr && !unit->offloads_parameters()) continue;
    return InvalidArgument("router_bias_rate: the bias '", layer->bias()->parameter().name(),
                           "' is offloaded with other parameters, or is in no unit of its own; "
                           "expected it in the device's memory: leave parameters out of offload");
  }
  if (found) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "router_bias_rate: the model's routers have no bias (e_score_correction_bias), as those of "
      "model_type dots1; leave it out");
}

absl::Status UpdateRouterBiases(Sharding& sharding, Kernels& kernels,
                                absl::Span<MoeMlp* const> layers, absl::Span<const int64_t> counts,
                                float rate) {
  for (const MoeMlp* layer : layers) {
    const absl::Span<const int64_t> loads = counts.first(static_cast<size_t>(layer->experts()));
    counts.remove_prefix(loads.size());
    if (layer->bias() == nullptr) continue;
    const int64_t all = std::accumulate(loads.begin(), loads.end(), int64_t{0});
    std::vector<float> steps;
    for (const int64_t load : loads) {
      // Compares load * experts with the sum, which is the same as the load with the mean.
      const int64_t excess = load * layer->experts() - all;
      steps.push_back(excess == 0 ? 0.0f : excess < 0 ? rate : -rate);
    }
    Unit* const unit = sharding.FindUnit(layer->bias()->name());
    ZEROTH_CHECK(unit != nullptr && unit->parameters().size() == 1);
    const ShardLayout::Piece piece = unit->PieceOf(0);
    // With shard_optimizer_over_world each rank owns a part of the bias, or nothing.
    if (piece.numel() == 0) continue;
    const Tensor bias = unit->ShardView(piece);
    const auto own = absl::MakeConstSpan(steps).subspan(static_cast<size_t>(piece.begin),
                                                        static_cast<size_t>(piece.numel()));
    ZEROTH_ASSIGN_OR_RETURN(
        const Tensor step,
        Tensor::FromHost<float>(unit->device(), bias.shape(), own, MemoryCategory::kActivations));
    ZEROTH_RETURN_IF_ERROR(kernels::Add(kernels, bias, step, bias));
  }
  // The next gathers wait for these writes, as for the optimizer's.
  return sharding.scheduler().EndStep();
}

}  // namespace zeroth
