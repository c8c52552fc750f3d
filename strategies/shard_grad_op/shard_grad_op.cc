// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// ZeRO stage 2 (Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter
// models", 2020): gradients and optimizer state are sharded, and so are parameters between steps. A
// unit is gathered at its first use in a step, and stays gathered until the step ends. FSDP's
// SHARD_GRAD_OP frees it after its backward, as full_shard does here with reshard_after_forward =
// false. With a shard size, state is sharded inside groups of ranks and replicated across groups
// (FSDP's _HYBRID_SHARD_ZERO2).

#include <memory>

#include "absl/strings/string_view.h"

#include "zeroth/strategies/strategy.h"

namespace zeroth {
namespace {

constexpr char kName[] = "shard_grad_op";

class ShardGradOp : public ShardingStrategy {
 public:
  using ShardingStrategy::ShardingStrategy;

  absl::string_view name() const override { return kName; }
};

const StrategyRegistration registration(kName, [](const StrategyOptions& options) {
  return std::make_unique<ShardGradOp>(options);
});

}  // namespace
}  // namespace zeroth
