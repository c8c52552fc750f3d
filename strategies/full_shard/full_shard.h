// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// ZeRO stage 3 / fully-sharded data parallelism (Rajbhandari et al., 2020; Zhao et al., "PyTorch
// FSDP", 2023): a unit's full parameters exist only around its forward and its backward. The root
// unit stays gathered in between, since it is used at both ends.

#ifndef ZEROTH_STRATEGIES_FULL_SHARD_FULL_SHARD_H_
#define ZEROTH_STRATEGIES_FULL_SHARD_FULL_SHARD_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/strategies/flat_strategy.h"

namespace zeroth {

class FullShard : public FlatStrategy {
 public:
  // The name it is registered under.
  static constexpr char kName[] = "full_shard";

  explicit FullShard(const StrategyOptions& options) : FlatStrategy(options) {}

  absl::string_view name() const override { return kName; }
  StatePlacement placement() const override;
  absl::StatusOr<int> ShardSize(int world_size) const override;

 protected:
  bool KeepsGathered(const Unit& unit, Pass pass) const override;
  bool TakesTurns() const override { return options().reshard_after_forward; }
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_FULL_SHARD_FULL_SHARD_H_
