// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Plain data parallelism (DDP): parameters, gradients and optimizer state are replicated, and
// backward all-reduces the gradients. Parameter::data() is still cleared when the step ends, so
// using it outside a pass is an error, as under other strategies.

#include "zeroth/strategies/strategy.h"

namespace zeroth {
namespace {

class NoShard : public ShardingStrategy {
 public:
  using ShardingStrategy::ShardingStrategy;

  StrategyCapabilities capabilities() const override {
    StrategyCapabilities supported = ShardingStrategy::capabilities();
    supported.shards = false;
    return supported;
  }
  absl::StatusOr<int> ShardSize(int) const override { return 1; }
};

const auto registration = StrategyRegistration::Of<NoShard>("no_shard");

}  // namespace
}  // namespace zeroth
