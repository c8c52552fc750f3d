// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Plain data parallelism (DDP): parameters, gradients and optimizer state are replicated, and
// gradients all-reduced in backward. Parameter::data() is still cleared when the step ends, so that
// use outside of a pass is an error as under other strategies.

#include "absl/strings/string_view.h"

#include "zeroth/strategies/strategy.h"

namespace zeroth {
namespace {

constexpr char kName[] = "no_shard";

class NoShard : public ShardingStrategy {
 public:
  using ShardingStrategy::ShardingStrategy;

  absl::string_view name() const override { return kName; }
  StrategyCapabilities capabilities() const override {
    StrategyCapabilities supported = ShardingStrategy::capabilities();
    supported.shards = false;
    return supported;
  }
  absl::StatusOr<int> ShardSize(int) const override { return 1; }
};

const auto registration = StrategyRegistration::Of<NoShard>(kName);

}  // namespace
}  // namespace zeroth
