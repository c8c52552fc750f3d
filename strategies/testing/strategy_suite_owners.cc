// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The strategy suite: owners of masters that span shard groups
// (StrategyOptions::shard_optimizer_over_world), which changes where state is stored, but not
// results.

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/testing/strategy_suite.h"
#include "zeroth/strategies/testing/toy_training.h"

namespace zeroth {
namespace {

// All ways to compute the sum of a gradient, or a gathered parameter.
std::vector<ShardingOptions> Variants(const ShardingOptions& plain) {
  std::vector<ShardingOptions> variants;
  for (const DType param_dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const DType reduce_dtype : {DType::kFloat32, DType::kBFloat16}) {
      ShardingOptions options = plain;
      options.mixed_precision = {param_dtype, reduce_dtype};
      variants.push_back(options);
      options.min_shard_numel = 20;
      options.layout = LayoutKind::kRows;
      variants.push_back(options);
      options.strategy_options.gradient_divide_factor = 5;
      options.strategy_options.reshard_after_forward = false;
      variants.push_back(options);
      options = plain;
      options.mixed_precision = {param_dtype, reduce_dtype};
      options.strategy_options.gradient_op = ReduceOp::kSum;
      options.offload.parameters = true;
      options.offload.gradients = true;
      options.offload.chunk_numel = 5;
      variants.push_back(options);
    }
  }
  return variants;
}

struct MicroBatching {
  int count;
  bool sync_each;
};
constexpr MicroBatching kMicroBatching[] = {{1, true}, {3, true}, {3, false}};

}  // namespace

TEST_P(StrategySuite, OwnersInAllGroupsGetTheBitsOfOwnersInOne) {
  if (!OwnersSpanGroups()) return;
  const auto train = [&](const ShardingOptions& options, const MicroBatching& micro_batches) {
    SharedResult result;
    EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
                ToyModel model(AwkwardUnits());
                ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
                ZEROTH_RETURN_IF_ERROR(ToyTrainInMicroBatches(
                    *sharding, world.rank(), micro_batches.count, micro_batches.sync_each));
                return result.Add(*sharding);
              }),
              absl::OkStatus());
    return result.values();
  };
  for (const ShardingOptions& over_world : Variants(Options())) {
    ShardingOptions in_groups = over_world;
    in_groups.strategy_options.shard_optimizer_over_world = false;
    for (const MicroBatching& micro_batches : kMicroBatching) {
      SCOPED_TRACE(testing::Message()
                   << DTypeName(over_world.mixed_precision.param_dtype) << " parameters, "
                   << DTypeName(over_world.mixed_precision.reduce_dtype)
                   << " reductions, whole below " << over_world.min_shard_numel << ", offloaded "
                   << over_world.offload.any() << ", " << micro_batches.count
                   << " micro-batches, each reduced: " << micro_batches.sync_each);
      EXPECT_TRUE(SharedResult::SameBits(train(over_world, micro_batches),
                                         train(in_groups, micro_batches)));
    }
  }
}

// However many micro-batches a step has, and whatever is freed in between, each unit's parameters
// and gradients cross groups once, in collectives of 1 / shard size of the unit.
TEST_P(StrategySuite, OwnersInOtherGroupsAreReachedOnceAStep) {
  if (!OwnersSpanGroups()) return;
  EXPECT_EQ(
      Run([&](Communicator& world, Device& device) -> absl::Status {
        ToyModel model(UniformUnits(3));
        ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
        const MeshView& mesh = ViewOf(*sharding);
        int64_t shard_bytes = 0;
        for (const Unit* unit : sharding->units()) {
          shard_bytes += 4 * unit->segment_layout(0).shard_numel;
        }
        const auto units = static_cast<int64_t>(sharding->units().size());
        const CommStats& gathers = mesh.replicate_gather().stats();
        const CommStats& reductions = mesh.replicate_reduce().stats();
        int64_t steps = 0;
        for (const MicroBatching& micro_batches : kMicroBatching) {
          ZEROTH_RETURN_IF_ERROR(ToyTrainInMicroBatches(
              *sharding, world.rank(), micro_batches.count, micro_batches.sync_each));
          steps += kToyMicroBatchSteps;
          // A rank sends its piece to each other group.
          const int64_t bytes = shard_bytes * (mesh.replicate_size() - 1) * steps;
          ZEROTH_TOY_EXPECT(gathers[CollectiveOp::kAllGather].calls == units * steps);
          ZEROTH_TOY_EXPECT(gathers[CollectiveOp::kAllGather].bytes == bytes);
          ZEROTH_TOY_EXPECT(reductions[CollectiveOp::kReduceScatter].calls == units * steps);
          ZEROTH_TOY_EXPECT(reductions[CollectiveOp::kReduceScatter].bytes == bytes);
        }
        for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kBroadcast}) {
          ZEROTH_TOY_EXPECT(sharding->stats().collectives[static_cast<size_t>(op)].calls == 0);
        }
        return CheckAtRest(*sharding);
      }),
      absl::OkStatus());
}

// A rank owns 1 / world size of what a group would have sharded among its own ranks.
TEST_P(StrategySuite, OwnersInAllGroupsOwnLess) {
  if (!OwnersSpanGroups()) return;
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(UniformUnits(3));
              ShardingOptions options = Options();
              ZEROTH_ASSIGN_OR_RETURN(auto over_world, Make(world, device, model, options));
              const double ratio = over_world->LocalShardingRatio();
              const int64_t bytes = over_world->ShardMemoryBytes();
              over_world.reset();
              options.strategy_options.shard_optimizer_over_world = false;
              ZEROTH_ASSIGN_OR_RETURN(auto in_groups, Make(world, device, model, options));
              const double groups = ViewOf(*in_groups).replicate_size();
              // Padding may differ, and make the last rank's piece shorter.
              ZEROTH_TOY_EXPECT(ratio <= 1.05 / world.size());
              ZEROTH_TOY_EXPECT(static_cast<double>(bytes) * groups <=
                                1.05 * static_cast<double>(in_groups->ShardMemoryBytes()));
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

}  // namespace zeroth
