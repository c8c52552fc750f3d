// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The strategy suite: micro-batches and ranks summed in one tree.

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/testing/strategy_suite.h"
#include "zeroth/strategies/testing/toy_training.h"

namespace zeroth {
namespace {

bool IsPowerOfTwo(int size) { return (size & (size - 1)) == 0; }

// The definition, for one element: the left subtree has the largest power of two that is below the
// number of leaves.
template <typename Leaf>
float Tree(const Leaf& leaf, int64_t begin, int64_t count) {
  if (count == 1) return leaf(begin);
  int64_t half = 1;
  while (2 * half < count) half *= 2;
  return Tree(leaf, begin, half) + Tree(leaf, begin + half, count - half);
}

// The expected sum of all ranks' micro-batches: each is rounded to `dtype`, and their sum once.
ToyFormula TreeOf(int64_t leaves, int step, DType dtype) {
  return [=](const Parameter& parameter, int64_t element) {
    const float value = ToyValue(parameter, element);
    const auto leaf = [&](int64_t index) {
      return RoundTo(dtype,
                     RandomGradient(static_cast<int>(index), step)(parameter, element, value));
    };
    return RoundTo(dtype, Tree(leaf, 0, leaves));
  };
}

absl::Status MicroBatch(Sharding& sharding, int64_t leaf, int step, bool last) {
  ToyStep toy;
  toy.gradient = RandomGradient(static_cast<int>(leaf), step);
  sharding.scheduler().SetIsLastBackward(last);
  ZEROTH_RETURN_IF_ERROR(ToyForward(sharding, toy));
  ZEROTH_RETURN_IF_ERROR(ToyBackward(sharding, toy));
  return sharding.scheduler().FinishBackward();
}

ShardingOptions TreeOptions(ShardingOptions options, int64_t micro_batches) {
  options.strategy_options.tree_micro_batches = micro_batches;
  options.strategy_options.gradient_op = ReduceOp::kSum;
  return options;
}

TEST_P(StrategySuite, MicroBatchesAndRanksAreSummedInOneTree) {
  if (!Supports(TreeOptions(Options(), 2)) || !IsPowerOfTwo(world_size())) return;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t count : {1, 2, 3, 4, 6, 7, 8}) {
      SCOPED_TRACE(::testing::Message()
                   << count << " micro-batches of " << DTypeName(dtype).data());
      EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
                  ToyModel model(AwkwardUnits());
                  ShardingOptions options = TreeOptions(Options(), count);
                  options.mixed_precision.reduce_dtype = dtype;
                  ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
                  // Twice: no step leaves anything for the next.
                  for (const int step : {0, 1}) {
                    for (int64_t i = 0; i < count; ++i) {
                      ZEROTH_RETURN_IF_ERROR(MicroBatch(*sharding, i * world.size() + world.rank(),
                                                        step, i + 1 == count));
                    }
                    ZEROTH_RETURN_IF_ERROR(
                        CheckGradients(*sharding, TreeOf(count * world.size(), step, dtype)));
                    ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
                    ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
                  }
                  return absl::OkStatus();
                }),
                absl::OkStatus());
    }
  }
}

TEST_P(StrategySuite, OneTreeNeedsThePlaceOfEveryMicroBatch) {
  if (!Supports(TreeOptions(Options(), 2)) || !IsPowerOfTwo(world_size())) return;
  const auto is_about = [](const absl::Status& status, absl::string_view words) {
    return status.code() == absl::StatusCode::kFailedPrecondition &&
           absl::StrContains(status.message(), words);
  };
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(UniformUnits(2));
              ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                      Make(world, device, model, TreeOptions(Options(), 2)));
              Scheduler& scheduler = sharding->scheduler();
              ZEROTH_TOY_EXPECT(is_about(MicroBatch(*sharding, world.rank(), 0, /*last=*/true),
                                         "micro-batch 1 of the step is its last one"));
              ZEROTH_RETURN_IF_ERROR(scheduler.Abandon());
              ZEROTH_RETURN_IF_ERROR(MicroBatch(*sharding, world.rank(), 0, /*last=*/false));
              ZEROTH_TOY_EXPECT(is_about(MicroBatch(*sharding, world.rank(), 0, /*last=*/false),
                                         "micro-batch 2 of the step is not its last one"));
              ZEROTH_RETURN_IF_ERROR(scheduler.Abandon());
              scheduler.SetRequiresGradientSync(false);
              ZEROTH_TOY_EXPECT(is_about(MicroBatch(*sharding, world.rank(), 0, /*last=*/false),
                                         "SetRequiresGradientSync(false)"));
              scheduler.SetRequiresGradientSync(true);
              ZEROTH_RETURN_IF_ERROR(scheduler.Abandon());
              return CheckAtRest(*sharding);
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, OneTreeIsRefusedWhereItWouldNotBeOne) {
  const auto refusal = [&](const ShardingOptions& options, const UnitAxes& axes = {}) {
    return Run([&](Communicator& world, Device& device) -> absl::Status {
      std::vector<ToyUnit> units = UniformUnits(1);
      units[0].axes = axes;
      ToyModel model(units);
      const absl::Status status = Make(world, device, model, options).status();
      ZEROTH_TOY_EXPECT(status.code() == absl::StatusCode::kInvalidArgument);
      ZEROTH_TOY_EXPECT(absl::StrContains(status.message(), "tree_micro_batches"));
      return absl::OkStatus();
    });
  };
  ShardingOptions mean = TreeOptions(Options(), 2);
  mean.strategy_options.gradient_op = ReduceOp::kMean;
  EXPECT_EQ(refusal(mean), absl::OkStatus());
  EXPECT_EQ(refusal(TreeOptions(Options(), -1)), absl::OkStatus());
  if (!Supports(TreeOptions(Options(), 2)) || !IsPowerOfTwo(world_size())) {
    EXPECT_EQ(refusal(TreeOptions(Options(), 2)), absl::OkStatus());
    return;
  }
  ShardingOptions own = TreeOptions(Options(), 1);
  own.collectives = std::make_shared<UnitCollectives>();
  EXPECT_EQ(refusal(own), absl::OkStatus());
  const int shard_size = Options().strategy_options.shard_size;
  if (Capabilities().unit_axes && shard_size > 1 && shard_size < world_size()) {
    const UnitAxes other_order = {{kShardAxis}, {kReplicateAxis}};
    EXPECT_EQ(refusal(TreeOptions(Options(), 2), other_order), absl::OkStatus());
  }
}

}  // namespace
}  // namespace zeroth
