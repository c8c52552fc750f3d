// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Fully sharded inside groups of ranks, replicated across them (FSDP's HYBRID_SHARD; MiCS: Zhang et
// al., 2022): gathers stay inside a group, gradients are reduce-scattered inside it and their
// shards all-reduced across groups. The optimizer's state may be cut over all ranks all the same,
// see StrategyOptions::shard_optimizer_over_world.

#ifndef ZEROTH_STRATEGIES_HYBRID_SHARD_HYBRID_SHARD_H_
#define ZEROTH_STRATEGIES_HYBRID_SHARD_HYBRID_SHARD_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/strategies/flat_strategy.h"

namespace zeroth {

class HybridShard : public FlatStrategy {
 public:
  // The name it is registered under.
  static constexpr char kName[] = "hybrid_shard";

  explicit HybridShard(const StrategyOptions& options) : FlatStrategy(options) {}

  absl::string_view name() const override { return kName; }
  StatePlacement placement() const override;
  absl::StatusOr<int> ShardSize(int world_size) const override;
  bool ShardsOptimizerOverWorld() const override { return options().shard_optimizer_over_world; }

 protected:
  bool KeepsGathered(const Unit& unit, Pass pass) const override;
  bool TakesTurns() const override { return options().reshard_after_forward; }
  bool ReducesAcrossGroups() const override { return true; }
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_HYBRID_SHARD_HYBRID_SHARD_H_
