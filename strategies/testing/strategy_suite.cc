// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/testing/strategy_suite.h"

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/testing/missing_device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/strategies/strategy.h"

namespace zeroth {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StrategySuite);

std::vector<StrategyCase> StrategyCases(const std::string& strategy) {
  std::vector<StrategyCase> cases;
  for (int world_size : {1, 2, 3, 4, 8}) cases.push_back({strategy, world_size});
  return cases;
}

std::string StrategyCaseName(const testing::TestParamInfo<StrategyCase>& info) {
  const std::string groups =
      info.param.shard_size == 0 ? "" : absl::StrCat("InGroupsOf", info.param.shard_size);
  return absl::StrCat("On", info.param.world_size, groups,
                      info.param.shard_optimizer_over_world ? "OptimizerOverWorld" : "");
}

void StrategySuite::SetUp() { ZEROTH_SKIP_WITHOUT_DEVICE(GetParam().device); }

ShardingOptions StrategySuite::Options() const {
  ShardingOptions options;
  options.strategy = GetParam().strategy;
  options.strategy_options.shard_size = GetParam().shard_size;
  options.strategy_options.shard_optimizer_over_world = GetParam().shard_optimizer_over_world;
  return options;
}

StrategyCapabilities StrategySuite::Capabilities() const {
  const ShardingOptions options = Options();
  const auto strategy = StrategyRegistry::Create(options.strategy, options.strategy_options);
  return strategy.ok() ? (*strategy)->capabilities() : StrategyCapabilities();
}

bool StrategySuite::Supports(const ShardingOptions& options) const {
  const auto strategy = StrategyRegistry::Create(options.strategy, options.strategy_options);
  return strategy.ok() && ShardSizeOf(**strategy, options.strategy_options, world_size()).ok();
}

absl::StatusOr<std::unique_ptr<Sharding>> StrategySuite::Make(
    Communicator& world, Device& device, const ToyModel& model,
    const ShardingOptions& options) const {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Sharding> sharding,
                          Sharding::Create(world, device, options, model.Specs()));
  ZEROTH_RETURN_IF_ERROR(sharding->Load(ReaderOf(ToyValue)));
  return sharding;
}

absl::StatusOr<int64_t> StrategySuite::SumOverRanks(Communicator& world, Device& device,
                                                    int64_t value) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, Tensor::FromHost<int64_t>(
                                                device, Shape({1}), absl::MakeConstSpan(&value, 1),
                                                MemoryCategory::kWorkspace));
  ZEROTH_RETURN_IF_ERROR(
      world.AllReduce(sum, ReduceOp::kSum, device.compute_stream(), "sum over ranks"));
  ZEROTH_RETURN_IF_ERROR(device.compute_stream().Synchronize());
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int64_t> result, sum.ToHost<int64_t>());
  return result[0];
}

}  // namespace zeroth
