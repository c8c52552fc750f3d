// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The base of strategies on flat units. It gathers and reduces by unit programs (unit_program.h); a
// strategy only says which units stay gathered, and what it supports. Each function can be
// overridden: SyncGradients for another reduction, say.

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/strategies/program_runner.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/unit_program.h"

namespace zeroth {

class FlatStrategy : public ShardingStrategy {
 public:
  explicit FlatStrategy(const StrategyOptions& options);
  ~FlatStrategy() override;

  // Everything, except what only strategies that free units after their forward can support.
  StrategyCapabilities capabilities() const override;
  // StrategyOptions::shard_size, which must divide `world_size`; by default all ranks.
  absl::StatusOr<int> ShardSize(int world_size) const override;
  std::vector<Communicator*> OwnGroups() const override;
  absl::Status Attach(const StrategyContext& context) override;
  absl::Status Gather(Unit& unit, Pass pass, Stream& comm) override;
  absl::Status Reshard(Unit& unit, Pass pass) override;
  absl::Status PrepareGradients(Unit& unit) override;
  absl::Status SyncGradients(Unit& unit, Stream& comm, bool is_last_micro_batch) override;
  absl::Status Trim() override;
  std::string ProgramsText(const Unit& unit) const override;

 protected:
  // True if the unit stays gathered after this pass over it. By default it does until the step
  // ends.
  virtual bool KeepsGathered(const Unit& unit, Pass pass) const;

  const StrategyOptions& options() const { return options_; }
  const StrategyContext& context() const { return context_; }
  // InvalidArgument that says what is `wrong` with the shard size, and lists those that fit.
  absl::Status WrongShardSize(absl::string_view wrong, int world_size) const;
  // KeepsGathered for strategies that free units after their forward. True after a forward for the
  // root, which is used at both ends of a pass, and for all units without reshard_after_forward.
  bool KeepsAfterForward(const Unit& unit, Pass pass) const;

 private:
  struct Programs;

  ProgramOptions ProgramOptionsOf(const Unit& unit) const;
  Programs& ProgramsOf(const Unit& unit);
  absl::Status ExpectPlaceInTree(const Unit& unit, bool is_last) const;
  absl::Status AttachPostForwardGroups();
  // The group inside which the unit's backward gathers the slices that its forward has kept;
  // nullptr if its forward keeps none.
  Communicator* PostForwardGroup(const Unit& unit) const;
  // The number of ranks with data of their own; the same for all units.
  int DataSize() const;
  // The factor that multiplies reduced gradients.
  double GradientScale() const;

  StrategyOptions options_;
  StrategyContext context_;
  std::unique_ptr<ProgramRunner> runner_;
  std::vector<Programs> programs_;  // by Unit::index()
  // The groups of StrategyOptions::post_forward_shard_size, by shard group, in the order of units.
  std::vector<std::pair<Communicator*, std::unique_ptr<Communicator>>> post_forward_groups_;
};

// The base of strategies that free units after their forward, unless the options say otherwise.
class FreesAfterForward : public FlatStrategy {
 public:
  using FlatStrategy::FlatStrategy;

  StrategyCapabilities capabilities() const override;

 protected:
  bool KeepsGathered(const Unit& unit, Pass pass) const override {
    return KeepsAfterForward(unit, pass);
  }
};

}  // namespace zeroth
