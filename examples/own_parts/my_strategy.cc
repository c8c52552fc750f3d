// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Like full_shard, but the first `units` units keep their parameters gathered from forward to
// backward, which takes memory and saves their second gather.

#include <memory>

#include "zeroth/strategies/strategy.h"

namespace {

class KeepSome : public zeroth::ShardingStrategy {
 public:
  using ShardingStrategy::ShardingStrategy;

 protected:
  bool KeepsGathered(const zeroth::Unit& unit, zeroth::Pass pass) const override {
    // The root is unit 0.
    const bool keeps = unit.index() <= options().IntOption("units");
    return KeepsGatheredAfterForward(unit, pass) || (keeps && pass == zeroth::Pass::kForward);
  }
};

const zeroth::StrategyRegistration registration(
    "keep_some", {{.name = "units", .default_value = "1", .least = 0, .most = 1000}},
    [](const zeroth::StrategyOptions& options) { return std::make_unique<KeepSome>(options); });

}  // namespace
