// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// ZeRO stage 2 (Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter
// models", 2020): gradients and optimizer state are sharded, parameters too between steps; a unit
// is gathered at its first use in a step and kept until the step ends.

#ifndef ZEROTH_STRATEGIES_SHARD_GRAD_OP_SHARD_GRAD_OP_H_
#define ZEROTH_STRATEGIES_SHARD_GRAD_OP_SHARD_GRAD_OP_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/strategies/flat_strategy.h"

namespace zeroth {

class ShardGradOp : public FlatStrategy {
 public:
  // The name it is registered under.
  static constexpr char kName[] = "shard_grad_op";

  explicit ShardGradOp(const StrategyOptions& options) : FlatStrategy(options) {}

  absl::string_view name() const override { return kName; }
  StatePlacement placement() const override;
  absl::StatusOr<int> ShardSize(int world_size) const override;

 protected:
  bool KeepsGathered(const Unit& unit, Pass pass) const override;
  bool TakesTurns() const override { return false; }
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_SHARD_GRAD_OP_SHARD_GRAD_OP_H_
