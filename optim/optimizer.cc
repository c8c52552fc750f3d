// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/optimizer.h"

#include <cmath>

#include "zeroth/core/base/did_you_mean.h"
#include "zeroth/core/base/registry.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Optimizers = Registry<OptimizerRegistry, OptimizerRegistry::Factory>;

constexpr NamedElsewhere kElsewhere[] = {
    {"adamw",
     "adam fused_adam fusedadam adamw_torch adamw_torch_fused torch_adamw adamw_hf cpu_adam "
     "deepspeedcpuadam"},
    {"adamw with --optimizer_state_dtype=float8_block",
     "adam8bit adamw8bit adamw_8bit adamw_bnb_8bit"},
};

}  // namespace

absl::Status Optimizer::Step(double lr, double grad_scale, const Tensor& grad_factor) {
  ZEROTH_RETURN_IF_ERROR(ExpectReducedGradients());
  ZEROTH_RETURN_IF_ERROR(BeginStep(lr, grad_scale));
  return Update(grad_factor);
}

absl::Status Optimizer::BeginStep(double lr, double grad_scale) {
  if (!(lr >= 0) || std::isinf(lr)) {
    return InvalidArgument("optimizer: the learning rate of step ", step_ + 1, " is ", lr,
                           ", expected a finite number of at least 0");
  }
  ZEROTH_RETURN_IF_ERROR(PrepareStep(step_ + 1, lr, grad_scale));
  ++step_;
  return absl::OkStatus();
}

absl::Status Optimizer::ExpectReducedGradients() const {
  for (const Unit* unit : sharding_.units()) {
    for (int i = 0; i < unit->segment_count(); ++i) {
      if (!unit->segment_layout(i).trainable) continue;
      ZEROTH_RETURN_IF_ERROR_WITH(unit->ExpectGradientState(GradientState::kReduced, "update"),
                                  "optimizer: call Scheduler::FinishBackward first");
      break;
    }
  }
  return sharding_.scheduler().ExpectBackwardFinished("update");
}

int64_t Optimizer::MemoryBytes() const {
  int64_t bytes = 0;
  for (const ShardState& state : states()) bytes += state.shard.bytes();
  return bytes;
}

OptimizerRegistration::OptimizerRegistration(absl::string_view name,
                                             OptimizerRegistry::Factory factory) {
  Optimizers::Global().Add(name, std::move(factory));
}

absl::Status OptimizerRegistry::Check(absl::string_view name) {
  if (Optimizers::Global().Find(name).has_value()) return absl::OkStatus();
  return InvalidArgument("unknown optimizer '", name, "'",
                         Optimizers::Global().Instead(name, kElsewhere));
}

absl::StatusOr<std::unique_ptr<Optimizer>> OptimizerRegistry::Create(
    absl::string_view name, Sharding& sharding, Kernels& kernels, const OptimizerOptions& options,
    absl::Span<const ParameterGroup> groups) {
  ZEROTH_RETURN_IF_ERROR(Check(name));
  return (*Optimizers::Global().Find(name))(sharding, kernels, options, groups);
}

}  // namespace zeroth
