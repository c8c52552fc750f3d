// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/shard_grad_op/shard_grad_op.h"

#include <memory>

namespace zeroth {

StatePlacement ShardGradOp::placement() const {
  return {.parameters = true, .gradients = true, .optimizer = true};
}

absl::StatusOr<int> ShardGradOp::ShardSize(int world_size) const {
  return FixedShardSize(kName, options(), world_size);
}

bool ShardGradOp::KeepsGathered(const Unit&, Pass pass) const {
  return pass == Pass::kForward || pass == Pass::kBackward;
}

namespace {

const StrategyRegistration registration(ShardGradOp::kName, [](const StrategyOptions& options) {
  return std::make_unique<ShardGradOp>(options);
});

}  // namespace
}  // namespace zeroth
