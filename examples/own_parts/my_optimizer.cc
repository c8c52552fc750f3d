// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Stochastic gradient descent with weight decay: w -= lr * (gradient + decay * w). It has no state.
// Each rank updates the shards that it owns.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/device.h"
#include "zeroth/optim/lr_schedule.h"
#include "zeroth/optim/optimizer.h"

namespace {

using namespace zeroth;  // NOLINT: a program's own .cc

class Sgd : public Optimizer {
 public:
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(
      Sharding& sharding, Kernels&, const OptimizerOptions& options,
      absl::Span<const ParameterGroup> groups) {
    // The loops below work on host memory in fp32, without parameter groups and moments.
    bool can = sharding.device().type() == "cpu" && groups.empty() &&
               options.state_dtype == DType::kFloat32;
    for (const Unit* unit : sharding.units()) {
      can = can && unit->precision().master_dtype == DType::kFloat32 &&
            unit->precision().gradient_dtype() == DType::kFloat32 && !unit->offloads_parameters() &&
            !unit->offloads_gradients();
    }
    if (!can) {
      return absl::UnimplementedError(
          "sgd: expected the CPU, weights and gradients in fp32 and in memory, and no groups");
    }
    return std::unique_ptr<Optimizer>(new Sgd(sharding, options));
  }

  absl::Status Update(const Tensor& grad_factor) override {
    ZEROTH_RETURN_IF_ERROR(ExpectReducedGradients());
    const float factor = grad_scale_ * (grad_factor.defined() ? *grad_factor.data<float>() : 1.0f);
    if (std::isnan(factor)) return absl::OkStatus();  // NaN skips the step
    for (Unit* unit : sharding_.units()) {
      for (int i = 0; i < unit->segment_count(); ++i) {
        if (!unit->segment_layout(i).trainable) continue;
        float* w = unit->ShardState(i).tensor().data<float>();
        const float* gradient = unit->GradientShardState(i).tensor().data<float>();
        for (const int index : unit->segment_layout(i).parameters) {
          const Parameter& parameter = unit->parameter(index);
          if (!parameter.requires_grad()) continue;
          const ShardLayout::Piece piece = unit->PieceOf(index);
          const float decay = parameter.decay() ? decay_ : 0.0f;
          for (int64_t j = piece.shard_offset; j < piece.shard_offset + piece.numel(); ++j) {
            w[j] -= step_lr_ * (factor * gradient[j] + decay * w[j]);
          }
        }
      }
    }
    return absl::OkStatus();
  }

  std::vector<ShardState> states() const override { return {}; }

 protected:
  absl::Status PrepareStep(int64_t, double lr, double grad_scale) override {
    step_lr_ = static_cast<float>(lr);
    grad_scale_ = static_cast<float>(grad_scale);
    return absl::OkStatus();
  }

 private:
  Sgd(Sharding& sharding, const OptimizerOptions& options)
      : Optimizer(sharding, options.lr), decay_(static_cast<float>(options.weight_decay)) {}

  float decay_;
  float step_lr_ = 0;
  float grad_scale_ = 1;
};

const OptimizerRegistration registration("sgd", Sgd::Create);

// Falls with the inverse square root of the step.
const LrScheduleRegistration schedule("inverse_sqrt", [](int64_t step,
                                                         const LrScheduleOptions& options) {
  const double warmup = std::max(1.0, static_cast<double>(options.warmup_steps));
  return options.lr * std::sqrt(warmup / std::max(warmup, static_cast<double>(step + 1)));
});

}  // namespace
