// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// ZeRO stage 1 (Rajbhandari et al., 2020): the optimizer's state is sharded, while parameters and
// gradients are full throughout a step. One all-gather and one reduce-scatter of each unit a step,
// however many micro-batches it has: the least traffic that shards anything.

#ifndef ZEROTH_STRATEGIES_SHARD_OPTIMIZER_SHARD_OPTIMIZER_H_
#define ZEROTH_STRATEGIES_SHARD_OPTIMIZER_SHARD_OPTIMIZER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/strategies/flat_strategy.h"

namespace zeroth {

class ShardOptimizer : public FlatStrategy {
 public:
  // The name it is registered under.
  static constexpr char kName[] = "shard_optimizer";

  explicit ShardOptimizer(const StrategyOptions& options) : FlatStrategy(options) {}

  absl::string_view name() const override { return kName; }
  // What is left at a step's end: full parameters are stale once shards have been updated, and full
  // gradients have been reduced.
  StatePlacement placement() const override;
  absl::StatusOr<int> ShardSize(int world_size) const override;
  // Micro-batches add to the full gradients until the last one.
  bool AddsUpInFull() const override { return !sums_in_tree(); }

 protected:
  bool KeepsGathered(const Unit& unit, Pass pass) const override;
  bool TakesTurns() const override { return false; }
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_SHARD_OPTIMIZER_SHARD_OPTIMIZER_H_
