// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The strategy suite: units that set UnitSpec::axes, which change where state is stored, but not
// results.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/testing/memory_formula.h"
#include "zeroth/strategies/testing/strategy_suite.h"
#include "zeroth/strategies/testing/toy_training.h"

namespace zeroth {
namespace {

const UnitAxes kShardedOverAll = {{}, {kReplicateAxis, kShardAxis}};
const UnitAxes kReplicatedOverAll = {{kReplicateAxis, kShardAxis}, {}};
// In groups of ranks that are not neighbours.
const UnitAxes kTheOtherWayRound = {{kShardAxis}, {kReplicateAxis}};

// `axes` by unit.
std::vector<ToyUnit> WithAxes(std::vector<ToyUnit> units, const std::vector<UnitAxes>& axes) {
  for (size_t i = 0; i < axes.size(); ++i) units[i].axes = axes[i];
  return units;
}

// For a root and three blocks.
const std::vector<UnitAxes> kMixtures[] = {
    {kShardedOverAll, {}, kReplicatedOverAll, {}},
    {kReplicatedOverAll, kShardedOverAll, {}, kShardedOverAll},
    {{}, kReplicatedOverAll, kReplicatedOverAll, kReplicatedOverAll},
};

// Returns options under which sums and gathered values are computed in different ways.
std::vector<ShardingOptions> Variants(const ShardingOptions& plain) {
  std::vector<ShardingOptions> variants = {plain, plain, plain};
  variants[0].min_shard_numel = 20;
  variants[1].mixed_precision = {DType::kBFloat16, DType::kBFloat16};
  variants[1].layout = LayoutKind::kRows;
  variants[2].mixed_precision = {DType::kBFloat16, DType::kFloat32};
  variants[2].scheduler.prefetch = false;
  return variants;
}

bool IsPowerOfTwo(int n) { return (n & (n - 1)) == 0; }

}  // namespace

TEST_P(StrategySuite, UnitsWithOtherAxesHaveTheSameBits) {
  if (!Capabilities().unit_axes) return;
  // If groups are not a power of two, sums inside and across them do not have the bits of flat
  // sums.
  if (GetParam().shard_size > 0 && !IsPowerOfTwo(GetParam().shard_size)) return;
  const auto train = [&](const ShardingOptions& options, const std::vector<UnitAxes>& axes,
                         int micro_batches) {
    SharedResult result;
    EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
                ToyModel model(WithAxes(AwkwardUnits(), axes));
                ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
                ZEROTH_RETURN_IF_ERROR(ToyTrainInMicroBatches(*sharding, world.rank(),
                                                              micro_batches, /*sync_each=*/false));
                return result.Add(*sharding);
              }),
              absl::OkStatus());
    return result.values();
  };
  for (const ShardingOptions& options : Variants(Options())) {
    // Several micro-batches accumulate in full here: if each one were reduced, full gradients would
    // be summed in another order than shards.
    for (const int micro_batches : {1, 3}) {
      const std::vector<float> expected = train(options, {}, micro_batches);
      for (const std::vector<UnitAxes>& axes : kMixtures) {
        SCOPED_TRACE(testing::Message() << "mixture " << &axes - kMixtures << ", " << micro_batches
                                        << " micro-batches, reduced in "
                                        << DTypeName(options.mixed_precision.reduce_dtype));
        EXPECT_TRUE(SharedResult::SameBits(train(options, axes, micro_batches), expected));
      }
    }
  }
}

// Sums of small integers are exact, whatever the groups and the order of summation.
TEST_P(StrategySuite, UnitsWithOtherAxesAddUpMicroBatches) {
  if (!Capabilities().unit_axes) return;
  const std::vector<UnitAxes> axes = {kTheOtherWayRound, kTheOtherWayRound, kShardedOverAll,
                                      kReplicatedOverAll};
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(WithAxes(AwkwardUnits(), axes));
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              Scheduler& scheduler = sharding->scheduler();
              ToyStep step;
              step.gradient = PatternGradient(world.rank());
              step.expected = ToyValue;
              constexpr int kMicroBatches = 3;
              for (int i = 1; i <= kMicroBatches; ++i) {
                scheduler.SetIsLastBackward(i == kMicroBatches);
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
              }
              ZEROTH_RETURN_IF_ERROR(CheckGradients(
                  *sharding, PatternMean(world.size(), kMicroBatches), kMeanTolerance));
              ZEROTH_RETURN_IF_ERROR(scheduler.EndStep());
              ZEROTH_RETURN_IF_ERROR(CheckFull(*sharding, ToyValue));
              return CheckAtRest(*sharding);
            }),
            absl::OkStatus());
}

// Exactly one rank of each statistics group counts an element.
TEST_P(StrategySuite, StatisticsCountEveryElementOnce) {
  if (!Capabilities().unit_axes) return;
  for (const std::vector<UnitAxes>& axes : kMixtures) {
    EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
                ToyModel model(WithAxes(AwkwardUnits(), axes));
                ShardingOptions options = Options();
                options.min_shard_numel = 8;
                ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
                int64_t counted = 0;
                for (const Unit* unit : sharding->units()) {
                  for (int i = 0; i < unit->layout().parameter_count(); ++i) {
                    const int segment = unit->layout().placement(i).segment;
                    if (sharding->AddsToStatistics(*unit, segment))
                      counted += unit->PieceOf(i).numel();
                  }
                }
                ZEROTH_ASSIGN_OR_RETURN(const int64_t all, SumOverRanks(world, device, counted));
                const int64_t groups = world.size() / sharding->statistics_group().size();
                ZEROTH_TOY_EXPECT(all == groups * sharding->stats().total_numel);
                return absl::OkStatus();
              }),
              absl::OkStatus());
  }
}

TEST_P(StrategySuite, MemoryOfUnitsWithOtherAxesIsTheFormula) {
  MemoryFormulaOptions formula;
  formula.strategy = GetParam().strategy;
  formula.world_size = world_size();
  formula.shard_size = GetParam().shard_size;
  formula.shard_optimizer_over_world = GetParam().shard_optimizer_over_world;
  if (!PredictStateBytes({}, formula).ok()) GTEST_SKIP() << "no formula for this strategy";
  constexpr double kRoot = 64 * 33;
  constexpr double kBlock = 32 * 32 + 97;
  ModelNumel numel{kRoot + 3 * kBlock, kRoot, kBlock};
  numel.replicated = kBlock;
  numel.sharded_over_all = kRoot;
  // A unit that is not sharded is not gathered.
  if (world_size() == 1) numel.root = 0;
  const bool groups_share = GetParam().strategy != "no_shard" && GetParam().shard_size != 1;
  if (world_size() == 1 || (!groups_share && !OwnersSpanGroups())) numel.block = 0;
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              if (device.allocator().has_transport_memory()) return absl::OkStatus();
              ToyModel model(WithAxes(UniformUnits(3), {kShardedOverAll, {}, kReplicatedOverAll}));
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              device.allocator().ResetPeaks();
              ZEROTH_RETURN_IF_ERROR(ToyTrain(*sharding, world.rank(), 3));
              ZEROTH_ASSIGN_OR_RETURN(const StateBytes expected, PredictStateBytes(numel, formula));
              const MemoryStats memory = device.allocator().stats();
              const auto check = [&](MemoryCategory category, double bytes) -> absl::Status {
                const auto peak = static_cast<double>(memory[category].peak_bytes);
                // Alignment and padding, of shards and of segments.
                if (peak >= bytes && peak <= 1.05 * bytes + 1024) return absl::OkStatus();
                return absl::InternalError(absl::StrCat(MemoryCategoryName(category), ": ", peak,
                                                        " bytes, the formula says ", bytes));
              };
              ZEROTH_RETURN_IF_ERROR(check(MemoryCategory::kParameters, expected.parameters));
              ZEROTH_RETURN_IF_ERROR(
                  check(MemoryCategory::kGatheredParameters, expected.gathered_parameters));
              return check(MemoryCategory::kGradients, expected.gradients);
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, AxesThatDoNotFitAreRefused) {
  if (!Capabilities().unit_axes) return;
  struct Case {
    UnitAxes axes;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{{kReplicateAxis}, {"experts"}}, "unknown axis 'experts'"},
      {{{kReplicateAxis}, {kShardAxis, kShardAxis}}, "axis 'shard' is named twice"},
      {{{kReplicateAxis, kShardAxis}, {kShardAxis}}, "each in one of the two"},
      {{{kReplicateAxis}, {}}, "expected 'replicate' and 'shard', each in one of the two"},
      {{{kReplicateAxis}, {kShardAxis, "tensor"}}, "exactly these axes"},
      {{{}, {kShardAxis, kReplicateAxis}}, "in the order of the mesh"},
      {{{kReplicateAxis, "tensor"}, {kShardAxis}}, "not adjacent in the mesh"},
  };
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              for (const Case& c : cases) {
                ToyModel model(WithAxes(AwkwardUnits(), {{}, c.axes}));
                ShardingOptions options = Options();
                options.inner_axes = {{"tensor", 1}};
                const absl::Status status = Make(world, device, model, options).status();
                ZEROTH_TOY_EXPECT(absl::IsInvalidArgument(status));
                if (!absl::StrContains(status.message(), c.message) ||
                    !absl::StrContains(status.message(), "unit 'h.0'")) {
                  return absl::InternalError(absl::StrCat("got ", status.ToString()));
                }
              }
              return world.status();
            }),
            absl::OkStatus());
}

}  // namespace zeroth
