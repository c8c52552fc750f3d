// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The base of strategies that work on flat units: it moves the bytes, a strategy says what is kept
// and what it serves. A strategy with other ideas implements ShardingStrategy itself.

#ifndef ZEROTH_STRATEGIES_FLAT_STRATEGY_H_
#define ZEROTH_STRATEGIES_FLAT_STRATEGY_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/flat_collectives.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/stream_scratch.h"

namespace zeroth {

class FlatStrategy : public ShardingStrategy {
 public:
  explicit FlatStrategy(const StrategyOptions& options) : options_(options) {}

  // Serves all options but those of strategies that free units after their forward; takes no turns.
  StrategyCapabilities capabilities() const override;
  // All ranks.
  absl::StatusOr<int> ShardSize(int world_size) const override { return world_size; }
  std::vector<Communicator*> OwnGroups() const override;
  absl::Status Attach(const StrategyContext& context) override;
  absl::Status Gather(Unit& unit, Pass pass, Stream& comm) override;
  absl::Status Reshard(Unit& unit, Pass pass) override;
  absl::Status PrepareGradients(Unit& unit) override;
  absl::Status SyncGradients(Unit& unit, Stream& comm, GradientSync sync) override;
  absl::Status Trim() override;

 protected:
  // Whether full parameters stay after this pass over the unit: as here, until the step ends.
  virtual bool KeepsGathered(const Unit& unit, Pass pass) const;

  const StrategyOptions& options() const { return options_; }
  // For those that free a unit after its forward, unless the options keep it: true for the root,
  // which is used at both ends of a pass.
  bool KeepsAfterForward(const Unit& unit, Pass pass) const;

 private:
  absl::Status AttachPostForwardGroups();
  // nullptr if the unit keeps nothing after its forward.
  Communicator* PostForwardGroup(const Unit& unit) const;
  // Ranks with data of their own; the same for all units.
  int DataSize() const;
  // What gradients are multiplied by once they are reduced.
  double GradientScale() const;

  StrategyOptions options_;
  StrategyContext context_;
  std::unique_ptr<StreamScratch> staging_;  // of gathers
  std::unique_ptr<StreamScratch> scratch_;  // of reductions
  std::unique_ptr<StreamScratch> across_scratch_;
  std::unique_ptr<BufferSet> handed_over_;
  // Of units' own collectives.
  std::unique_ptr<StreamScratch> gather_collective_scratch_;
  std::unique_ptr<StreamScratch> reduce_collective_scratch_;
  std::unique_ptr<StreamScratch> across_collective_scratch_;
  // Only with StrategyOptions::post_forward_shard_size.
  // By shard group, in the order in which units ask.
  std::vector<std::pair<Communicator*, std::unique_ptr<Communicator>>> post_forward_groups_;
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_FLAT_STRATEGY_H_
