// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The base of strategies that work on flat units: it moves the bytes, a strategy answers three
// questions. A strategy with other ideas implements ShardingStrategy itself.

#ifndef ZEROTH_STRATEGIES_FLAT_STRATEGY_H_
#define ZEROTH_STRATEGIES_FLAT_STRATEGY_H_

#include <memory>

#include "absl/status/status.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/strategies/flat_collectives.h"
#include "zeroth/strategies/group_parts.h"
#include "zeroth/strategies/secondary_shards.h"
#include "zeroth/strategies/strategy.h"

namespace zeroth {

class FlatStrategy : public ShardingStrategy {
 public:
  bool SupportsOffload() const override { return true; }
  bool SupportsUnitCollectives() const override { return true; }
  bool SupportsTreeSums() const override { return true; }
  bool NeedsReduceKernels() const override {
    return options_.gradient_divide_factor != 0 || sums_in_tree();
  }
  // In groups of one whose owners span groups there is nothing to sum before the last micro-batch.
  bool AddsUpInFull() const override;
  std::vector<Communicator*> OwnGroups() const override;
  absl::Status Attach(const StrategyContext& context) override;
  absl::Status Gather(Unit& unit, Pass pass, Stream& comm) override;
  absl::Status Reshard(Unit& unit, Pass pass) override;
  absl::Status PrepareGradients(Unit& unit) override;
  absl::Status SyncGradients(Unit& unit, Stream& comm, GradientSync sync) override;
  void Abandon(Unit& unit) override;
  absl::Status Trim() override;

 protected:
  explicit FlatStrategy(const StrategyOptions& options) : options_(options) {}

  // Whether full parameters stay after this pass over the unit.
  virtual bool KeepsGathered(const Unit& unit, Pass pass) const = 0;
  // Whether gathered units take turns in the scheduler's buffers; otherwise each has its own until
  // it is resharded.
  virtual bool TakesTurns() const = 0;
  // Whether shards of gradients are summed across shard groups.
  virtual bool ReducesAcrossGroups() const { return false; }

  const StrategyOptions& options() const { return options_; }
  // Whether a step's micro-batches are reduced one by one, see tree_sum.h.
  bool sums_in_tree() const { return options_.tree_micro_batches > 1; }

 private:
  absl::Status AttachPostForwardGroup();
  // What gradients are multiplied by once they are reduced.
  double GradientScale() const;

  StrategyOptions options_;
  StrategyContext context_;
  std::unique_ptr<FullBuffers> gathered_;
  std::unique_ptr<FullBuffers> gradients_;
  std::unique_ptr<StreamScratch> staging_;  // of gathers
  std::unique_ptr<StreamScratch> scratch_;  // of reductions
  // Of units' own collectives.
  std::unique_ptr<StreamScratch> gather_travel_;
  std::unique_ptr<StreamScratch> reduce_travel_;
  std::unique_ptr<GroupParts> group_parts_;  // only where owners span groups
  // Only with StrategyOptions::post_forward_shard_size.
  std::unique_ptr<Communicator> post_forward_group_;
  std::unique_ptr<SecondaryShards> secondary_;
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_FLAT_STRATEGY_H_
