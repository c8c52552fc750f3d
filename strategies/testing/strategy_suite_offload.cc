// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The strategy suite: parameters and gradients in an offload store.

#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/testing/faulty_store.h"
#include "zeroth/strategies/offload.h"
#include "zeroth/strategies/quantized_collectives.h"
#include "zeroth/strategies/testing/strategy_suite.h"
#include "zeroth/strategies/testing/toy_training.h"

namespace zeroth {
namespace {

struct Subset {
  bool parameters;
  bool gradients;
};
constexpr Subset kSubsets[] = {{true, false}, {false, true}, {true, true}};

OffloadOptions OffloadOf(const Subset& subset) {
  OffloadOptions options;
  options.parameters = subset.parameters;
  options.gradients = subset.gradients;
  options.chunk_numel = 5;  // chunks end everywhere
  return options;
}

struct Training {
  MixedPrecision precision;
  int64_t min_shard_numel = 0;
  int micro_batches = 1;
  bool sync_each = true;
};

std::vector<Training> Trainings() {
  std::vector<Training> trainings;
  for (const DType param_dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const DType reduce_dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const int64_t min_shard_numel : {0, 20}) {
        MixedPrecision precision = {param_dtype, reduce_dtype};
        // Masters of either kind with gradients of either kind.
        if (min_shard_numel > 0) precision.master_dtype = param_dtype;
        trainings.push_back({precision, min_shard_numel, 1, true});
        trainings.push_back({precision, min_shard_numel, 3, true});
        trainings.push_back({precision, min_shard_numel, 3, false});
      }
    }
  }
  return trainings;
}

TEST_P(StrategySuite, OffloadingChangesNoBit) {
  if (!SupportsOffload() || world_size() > 4) return;
  for (const Training& training : Trainings()) {
    SCOPED_TRACE(testing::Message()
                 << DTypeName(training.precision.param_dtype) << " parameters, "
                 << DTypeName(training.precision.reduce_dtype) << " reductions, whole below "
                 << training.min_shard_numel << ", " << training.micro_batches
                 << " micro-batches, each reduced: " << training.sync_each);
    SharedResult in_memory;
    const auto train = [&](const OffloadOptions& offload, SharedResult& result) {
      return Run([&](Communicator& world, Device& device) -> absl::Status {
        std::vector<ToyUnit> units = AwkwardUnits();
        units.push_back({"nothing", {Shape({0, 3})}});  // a unit without a buffer
        ToyModel model(units);
        ShardingOptions options = Options();
        options.mixed_precision = training.precision;
        options.min_shard_numel = training.min_shard_numel;
        options.offload = offload;
        ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
        ZEROTH_RETURN_IF_ERROR(ToyTrainInMicroBatches(*sharding, world.rank(),
                                                      training.micro_batches, training.sync_each));
        return result.Add(*sharding);
      });
    };
    ASSERT_EQ(train(OffloadOptions(), in_memory), absl::OkStatus());
    for (const Subset& subset : kSubsets) {
      SharedResult offloaded;
      ASSERT_EQ(train(OffloadOf(subset), offloaded), absl::OkStatus());
      EXPECT_TRUE(SharedResult::SameBits(offloaded.values(), in_memory.values()))
          << "parameters " << subset.parameters << ", gradients " << subset.gradients;
    }
  }
}

// A step's micro-batches decide the types of its gradients, wherever they are stored.
TEST_P(StrategySuite, StepsOfSeveralMicroBatchesChangeNothingForThoseOfOne) {
  if (!SupportsOffload() || world_size() > 4) return;
  SharedResult results[2];
  for (const bool offloads : {false, true}) {
    ASSERT_EQ(
        Run([&](Communicator& world, Device& device) -> absl::Status {
          ToyModel model(AwkwardUnits());
          ShardingOptions options = Options();
          options.mixed_precision = {DType::kBFloat16, DType::kBFloat16};
          options.offload.gradients = offloads;
          ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
          for (const int micro_batches : {3, 1}) {
            ZEROTH_RETURN_IF_ERROR(ToyTrainInMicroBatches(*sharding, world.rank(), micro_batches,
                                                          /*sync_each=*/true));
          }
          return results[offloads ? 1 : 0].Add(*sharding);
        }),
        absl::OkStatus());
  }
  EXPECT_TRUE(SharedResult::SameBits(results[1].values(), results[0].values()));
}

// Other options of a sharding, one at a time.
std::vector<std::pair<std::string, ShardingOptions>> Levers(const ShardingOptions& plain) {
  std::vector<std::pair<std::string, ShardingOptions>> levers;
  const auto add = [&](const char* name) -> ShardingOptions& {
    levers.emplace_back(name, plain);
    return levers.back().second;
  };
  add("rows").layout = LayoutKind::kRows;
  add("int8 traffic").collectives = *QuantizedCollectives(QuantizationOptions());
  add("divide factor").strategy_options.gradient_divide_factor = 3;
  add("smaller groups after forward").strategy_options.post_forward_shard_size = 1;
  add("kept after forward").strategy_options.reshard_after_forward = false;
  add("no prefetch").scheduler.prefetch = false;
  add("bf16 masters").mixed_precision = {DType::kBFloat16, DType::kBFloat16, DType::kBFloat16};
  add("fp16").mixed_precision = {DType::kFloat16, DType::kFloat16};
  add("blocks").block_numel = 16;
  add("state over all ranks").strategy_options.shard_optimizer_over_world = true;
  MixedPrecision unrounded = {DType::kBFloat16, DType::kBFloat16};
  add("bf16 state over all ranks").mixed_precision = unrounded;
  levers.back().second.strategy_options.shard_optimizer_over_world = true;
  unrounded.keep_low_precision_grads = false;
  add("gradients unrounded").mixed_precision = unrounded;
  add("gradients unrounded, state over all ranks").mixed_precision = unrounded;
  levers.back().second.strategy_options.shard_optimizer_over_world = true;
  return levers;
}

TEST_P(StrategySuite, OffloadingGoesWithEveryOtherLever) {
  if (!SupportsOffload() || world_size() > 4) return;
  int supported = 0;
  for (const auto& entry : Levers(Options())) {
    SCOPED_TRACE(entry.first);
    const ShardingOptions& lever = entry.second;  // Clang 14 captures no structured binding
    const auto train = [&](const OffloadOptions& offload, int micro_batches, SharedResult& result) {
      return Run([&](Communicator& world, Device& device) -> absl::Status {
        ToyModel model(AwkwardUnits());
        ShardingOptions options = lever;
        options.offload = offload;
        ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
        ZEROTH_RETURN_IF_ERROR(ToyTrainInMicroBatches(*sharding, world.rank(), micro_batches,
                                                      /*sync_each=*/true));
        return result.Add(*sharding);
      });
    };
    for (const int micro_batches : {1, 3}) {
      SharedResult in_memory;
      const absl::Status status = train(OffloadOptions(), micro_batches, in_memory);
      if (absl::IsInvalidArgument(status)) continue;  // not supported by this strategy
      ASSERT_EQ(status, absl::OkStatus());
      ++supported;
      SharedResult offloaded;
      ASSERT_EQ(train(OffloadOf({true, true}), micro_batches, offloaded), absl::OkStatus());
      EXPECT_TRUE(SharedResult::SameBits(offloaded.values(), in_memory.values()))
          << micro_batches << " micro-batches";
    }
  }
  EXPECT_GE(supported, 2 * 7) << "only groups after forward, and what needs groups, may be refused";
}

// The bytes of this rank's parameters (all of which are trained here), in fp32.
int64_t ShardBytes(const Sharding& sharding) {
  int64_t bytes = 0;
  for (const Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->segment_count(); ++i)
      bytes += 4 * unit->segment_layout(i).shard_numel;
  }
  return bytes;
}

TEST_P(StrategySuite, OffloadedStateTakesNoMemoryAtRest) {
  if (!SupportsOffload()) return;
  for (const Subset& subset : kSubsets) {
    EXPECT_EQ(
        Run([&](Communicator& world, Device& device) -> absl::Status {
          ToyModel model(UniformUnits(3));
          ShardingOptions options = Options();
          options.offload = OffloadOf(subset);
          ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
          ZEROTH_RETURN_IF_ERROR(CheckShards(*sharding, ToyValue));
          ZEROTH_RETURN_IF_ERROR(CheckFull(*sharding, ToyValue));
          ZEROTH_RETURN_IF_ERROR(ToyTrain(*sharding, world.rank(), 2));
          const ShardingStats stats = sharding->stats();
          const int64_t shard_bytes = ShardBytes(*sharding);
          const auto bytes = [&](MemoryCategory category) {
            return stats.memory[category].current_bytes;
          };
          ZEROTH_TOY_EXPECT(bytes(MemoryCategory::kParameters) ==
                            (subset.parameters ? 0 : shard_bytes));
          ZEROTH_TOY_EXPECT(device.allocator().has_transport_memory() ||
                            bytes(MemoryCategory::kGradients) == 0);
          ZEROTH_TOY_EXPECT(sharding->ShardMemoryBytes() == bytes(MemoryCategory::kParameters));
          const int kinds = (subset.parameters ? 1 : 0) + (subset.gradients ? 1 : 0);
          ZEROTH_TOY_EXPECT(stats.offload.reserved_bytes == kinds * shard_bytes);
          ZEROTH_TOY_EXPECT(stats.offload.bytes_read > 0);
          ZEROTH_TOY_EXPECT(stats.offload.bytes_written > 0);
          return absl::OkStatus();
        }),
        absl::OkStatus());
  }
}

TEST_P(StrategySuite, RefusesUnsupportedOffloading) {
  if (SupportsOffload()) return;
  for (const Subset& subset : kSubsets) {
    EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
                ToyModel model(AwkwardUnits());
                ShardingOptions options = Options();
                options.offload = OffloadOf(subset);
                const absl::Status status = Make(world, device, model, options).status();
                ZEROTH_TOY_EXPECT(absl::IsInvalidArgument(status));
                ZEROTH_TOY_EXPECT(absl::StrContains(status.message(), options.strategy));
                return absl::OkStatus();
              }),
              absl::OkStatus());
  }
}

// The last rank's store fails, after any number of transfers: no rank trains on, and the launcher
// gets the cause.
TEST_P(StrategySuite, AStoreThatBreaksIsAnErrorOnAllRanks) {
  if (!SupportsOffload() || GetParam().device != "cpu" || world_size() > 4) return;
  for (const Subset& subset : kSubsets) {
    for (int64_t good = 0; good < 40; good += 3) {
      std::latch ready(ranks_of_process());
      const absl::Status status = Run([&](Communicator& world, Device& device) -> absl::Status {
        ToyModel model(UniformUnits(3));
        ShardingOptions options = Options();
        options.offload = OffloadOf(subset);
        ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<OffloadStore> own, device.CreateOffloadStore({}));
        const auto store = std::make_shared<FaultyStore>(std::move(own), INT64_MAX);
        options.offload.store = store;
        const auto sharding = Make(world, device, model, options);
        ready.arrive_and_wait();
        ZEROTH_RETURN_IF_ERROR(sharding.status());
        if (world.rank() == world.size() - 1) store->set_good(good);
        const absl::Status trained = ToyTrain(**sharding, world.rank(), 20);
        ZEROTH_TOY_EXPECT(!trained.ok());
        if (world.rank() == world.size() - 1) {
          EXPECT_THAT(std::string(trained.message()), testing::HasSubstr("the disk is broken"));
        }
        ZEROTH_TOY_EXPECT(!(*sharding)->scheduler().Abandon().ok());
        ZEROTH_RETURN_IF_ERROR(CheckAtRest(**sharding));
        return trained;
      });
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << "after " << good << ": " << status;
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the disk is broken"));
    }
  }
}

}  // namespace
}  // namespace zeroth
