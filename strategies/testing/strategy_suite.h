// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The tests that every strategy must pass, whatever it shards: a test links this, names its
// strategy and gets the whole suite.
//
//   INSTANTIATE_TEST_SUITE_P(MyStrategy, StrategySuite,
//   testing::ValuesIn(StrategyCases("my_strategy")), StrategyCaseName);

#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/testing/toy_model.h"

namespace zeroth {

struct StrategyCase {
  std::string strategy;
  int world_size = 1;
  int shard_size = 0;  // 0: the strategy's own choice
  std::string device = "cpu";
  std::string back_end = "local";
  bool shard_optimizer_over_world = false;
  bool in_processes = false;  // each rank is a process that runs the tests

  friend std::ostream& operator<<(std::ostream& out, const StrategyCase& c) {
    return out << c.strategy << " with shard size " << c.shard_size << " on " << c.world_size
               << " ranks of " << c.device << " by " << c.back_end
               << (c.shard_optimizer_over_world ? ", optimizer state over all" : "");
  }
};

// At world sizes 1, 2, 3, 4 and 8.
std::vector<StrategyCase> StrategyCases(const std::string& strategy);
std::string StrategyCaseName(const ::testing::TestParamInfo<StrategyCase>& info);

class StrategySuite : public ::testing::TestWithParam<StrategyCase> {
 protected:
  // Skips where the machine has no such device.
  void SetUp() override;
  int world_size() const { return GetParam().world_size; }
  // The ranks that share this process's memory.
  int ranks_of_process() const { return GetParam().in_processes ? 1 : world_size(); }
  ShardingOptions Options() const;
  // The strategy's claims, and whether it supports these options.
  StrategyCapabilities Capabilities() const;
  bool SupportsOffload() const { return Capabilities().offload; }
  bool SupportsUnitCollectives() const { return Capabilities().unit_collectives; }
  bool Supports(const ShardingOptions& options) const;
  absl::Status Run(const ToyRank& rank_main) const {
    return RunToyRanks(world_size(), GetParam().device, rank_main, GetParam().back_end);
  }
  // Collective.
  static absl::StatusOr<int64_t> SumOverRanks(Communicator& world, Device& device, int64_t value);
  // Whether owners of masters span several groups here.
  bool OwnersSpanGroups() const {
    return GetParam().shard_optimizer_over_world && GetParam().shard_size < world_size();
  }
  // Weights after some steps under `options`, the same on every rank.
  std::vector<float> Trained(const ShardingOptions& options) const;
  // A sharding of `model` whose parameters have their ToyValue.
  absl::StatusOr<std::unique_ptr<Sharding>> Make(Communicator& world, Device& device,
                                                 const ToyModel& model,
                                                 const ShardingOptions& options) const;
  absl::StatusOr<std::unique_ptr<Sharding>> Make(Communicator& world, Device& device,
                                                 const ToyModel& model) const {
    return Make(world, device, model, Options());
  }
};

}  // namespace zeroth
