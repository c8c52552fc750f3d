// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Plain data parallelism (DDP): parameters, gradients and optimizer state are whole on every rank,
// and each unit's gradients are all-reduced while the units before it are still in backward.

#ifndef ZEROTH_STRATEGIES_NO_SHARD_NO_SHARD_H_
#define ZEROTH_STRATEGIES_NO_SHARD_NO_SHARD_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/strategies/flat_strategy.h"

namespace zeroth {

class NoShard : public FlatStrategy {
 public:
  // The name it is registered under.
  static constexpr char kName[] = "no_shard";

  explicit NoShard(const StrategyOptions& options) : FlatStrategy(options) {}

  absl::string_view name() const override { return kName; }
  StatePlacement placement() const override;
  absl::StatusOr<int> ShardSize(int world_size) const override;

 protected:
  bool KeepsGathered(const Unit& unit, Pass pass) const override;
  bool TakesTurns() const override { return false; }
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_NO_SHARD_NO_SHARD_H_
