// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/optimizer.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/registry.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Optimizers = Registry<OptimizerRegistry, OptimizerRegistry::Factory>;

}  // namespace

absl::Status Optimizer::Step(double lr, double grad_scale, const Tensor& grad_factor) {
  ZEROTH_RETURN_IF_ERROR(ExpectReducedGradients());
  ZEROTH_RETURN_IF_ERROR(BeginStep(lr, grad_scale));
  return Update(grad_factor);
}

absl::Status Optimizer::BeginStep(double lr, double grad_scale) {
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
  for (const ShardState& state : states()) {
    bytes += state.shard.numel() * static_cast<int64_t>(SizeOf(state.shard.dtype()));
  }
  return bytes;
}

void OptimizerRegistry::Register(absl::string_view name, Factory factory) {
  Optimizers::Global().Add(name, std::move(factory));
}

absl::StatusOr<std::unique_ptr<Optimizer>> OptimizerRegistry::Create(
    absl::string_view name, Sharding& sharding, Kernels& kernels, const OptimizerOptions& options,
    absl::Span<const ParameterGroup> groups) {
  const std::optional<Factory> factory = Optimizers::Global().Find(name);
  if (!factory.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown optimizer '", name, "'; the ones linked in are: ", absl::StrJoin(Names(), ", ")));
  }
  return (*factory)(sharding, kernels, options, groups);
}

std::vector<std::string> OptimizerRegistry::Names() { return Optimizers::Global().Names(); }

}  // namespace zeroth
