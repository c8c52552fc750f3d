// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The strategy suite: steps of several micro-batches.

#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/testing/strategy_suite.h"
#include "zeroth/strategies/testing/toy_training.h"

namespace zeroth {
namespace {

// Micro-batch `index` of `count`: forward, backward and FinishBackward, contributing (index + 1)
// times the rank's pattern.
absl::Status MicroBatch(Sharding& sharding, ToyStep step, int rank, int index, int count,
                        bool sync_each) {
  Scheduler& scheduler = sharding.scheduler();
  const bool last = index + 1 == count;
  scheduler.SetRequiresGradientSync(sync_each || last);
  scheduler.SetIsLastBackward(last);
  const ToyGradient pattern = PatternGradient(rank);
  step.gradient = [pattern, index](const Parameter& parameter, int64_t element, float value) {
    return static_cast<float>(index + 1) * pattern(parameter, element, value);
  };
  ZEROTH_RETURN_IF_ERROR(ToyForward(sharding, step));
  ZEROTH_RETURN_IF_ERROR(ToyBackward(sharding, step));
  return scheduler.FinishBackward();
}

absl::Status MicroBatches(Sharding& sharding, const ToyStep& step, int rank, int count,
                          bool sync_each) {
  for (int index = 0; index < count; ++index) {
    ZEROTH_RETURN_IF_ERROR(MicroBatch(sharding, step, rank, index, count, sync_each));
  }
  return absl::OkStatus();
}

TEST_P(StrategySuite, MicroBatchesAddUp) {
  for (const DType reduce_dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const bool sync_each : {true, false}) {
      SCOPED_TRACE(::testing::Message() << DTypeName(reduce_dtype).data() << " " << sync_each);
      EXPECT_EQ(
          Run([&](Communicator& world, Device& device) -> absl::Status {
            ToyModel model(AwkwardUnits());
            ShardingOptions options = Options();
            options.mixed_precision.reduce_dtype = reduce_dtype;
            ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
            // Three, one and three again: no step leaves anything for the next.
            for (const int count : {3, 1, 3}) {
              ToyStep step;
              step.expected = ToyValue;
              ZEROTH_RETURN_IF_ERROR(MicroBatches(*sharding, step, world.rank(), count, sync_each));
              const float times = count == 3 ? 6 : 1;
              ZEROTH_RETURN_IF_ERROR(
                  CheckGradients(*sharding, PatternMean(world.size(), times),
                                 reduce_dtype == DType::kFloat32 ? kMeanTolerance : 1.0 / 128));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
              ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
            }
            return absl::OkStatus();
          }),
          absl::OkStatus());
    }
  }
}

// Each micro-batch leaves out another unit, on every rank.
TEST_P(StrategySuite, UnitsThatAMicroBatchDoesNotUseCountAsZeros) {
  for (const bool sync_each : {true, false}) {
    EXPECT_EQ(
        Run([&](Communicator& world, Device& device) -> absl::Status {
          ToyModel model(UniformUnits(3));
          ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
          const absl::Span<Unit* const> units = sharding->units();
          for (int index = 0; index < 3; ++index) {
            ToyStep step;
            for (size_t i = 0; i < units.size(); ++i) {
              if (static_cast<int>(i) != index + 1) step.order.push_back(units[i]);
            }
            ZEROTH_RETURN_IF_ERROR(MicroBatch(*sharding, step, world.rank(), index, 3, sync_each));
          }
          for (size_t i = 1; i < units.size(); ++i) {
            // The contributions 1 + 2 + 3, without that of the micro-batch that leaves the unit
            // out.
            const float times = 6 - static_cast<float>(i);
            const ToyFormula mean = PatternMean(world.size(), times);
            const Parameter* const parameter = units[i]->parameters().front();
            const ShardLayout::Piece piece = units[i]->PieceOf(0);
            if (piece.numel() == 0) continue;
            ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values,
                                    ToFloats(units[i]->GradientShardView(piece)));
            for (size_t k = 0; k < values.size(); ++k) {
              const float expected = mean(*parameter, piece.begin + static_cast<int64_t>(k));
              ZEROTH_TOY_EXPECT(std::abs(values[k] - expected) <=
                                1e-5f * (1.0f + std::abs(expected)));
            }
          }
          return sharding->scheduler().EndStep();
        }),
        absl::OkStatus());
  }
}

void Subtract(const CommStats::Counters& what, CommStats::Counters& from) {
  for (size_t op = 0; op < from.size(); ++op) {
    from[op].calls -= what[op].calls;
    from[op].bytes -= what[op].bytes;
  }
}

// Bytes sent between groups whose ranks own the same masters or, together, all of them.
CommStats::Counters AcrossGroups(Sharding& sharding) {
  const MeshView& mesh = ViewOf(sharding);
  if (&mesh.replicate_reduce() == &mesh.data_reduce()) return {};
  CommStats::Counters across = mesh.replicate_reduce().stats().counters();
  if (!mesh.owners_span_groups()) return across;
  const CommStats::Counters gathers = mesh.replicate_gather().stats().counters();
  for (size_t op = 0; op < across.size(); ++op) {
    across[op].calls += gathers[op].calls;
    across[op].bytes += gathers[op].bytes;
  }
  return across;
}

// Bytes sent in a step of several micro-batches, in total and between groups.
struct StepTraffic {
  CommStats::Counters all;
  CommStats::Counters across;
  CommStats::Counters inside;  // the rest

  int64_t calls(CollectiveOp op) const { return all[static_cast<size_t>(op)].calls; }
  int64_t inside_calls(CollectiveOp op) const { return inside[static_cast<size_t>(op)].calls; }
  int64_t across_calls(CollectiveOp op) const { return across[static_cast<size_t>(op)].calls; }
};

absl::StatusOr<StepTraffic> Traffic(Sharding& sharding, int rank, int count, bool sync_each) {
  const CommStats::Counters all = sharding.stats().collectives;
  const CommStats::Counters across = AcrossGroups(sharding);
  ZEROTH_RETURN_IF_ERROR(MicroBatches(sharding, ToyStep(), rank, count, sync_each));
  ZEROTH_RETURN_IF_ERROR(sharding.scheduler().EndStep());
  StepTraffic traffic;
  traffic.all = sharding.stats().collectives;
  traffic.across = AcrossGroups(sharding);
  Subtract(all, traffic.all);
  Subtract(across, traffic.across);
  traffic.inside = traffic.all;
  Subtract(traffic.across, traffic.inside);
  return traffic;
}

TEST_P(StrategySuite, WhatCanWaitForTheLastMicroBatchIsReducedOnce) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(UniformUnits(3));
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              const int rank = world.rank();
              ZEROTH_ASSIGN_OR_RETURN(const auto one, Traffic(*sharding, rank, 1, true));
              ZEROTH_ASSIGN_OR_RETURN(const auto each, Traffic(*sharding, rank, 3, true));
              ZEROTH_ASSIGN_OR_RETURN(const auto last, Traffic(*sharding, rank, 3, false));
              const auto scatters = CollectiveOp::kReduceScatter;
              const auto reductions = CollectiveOp::kAllReduce;
              // A strategy may defer all reductions to the last micro-batch.
              ZEROTH_TOY_EXPECT(each.inside_calls(scatters) == 3 * one.inside_calls(scatters) ||
                                each.calls(scatters) == one.calls(scatters));
              ZEROTH_TOY_EXPECT(each.across_calls(scatters) == one.across_calls(scatters));
              ZEROTH_TOY_EXPECT(each.calls(reductions) == one.calls(reductions));
              ZEROTH_TOY_EXPECT(last.calls(scatters) == one.calls(scatters));
              ZEROTH_TOY_EXPECT(last.calls(reductions) == one.calls(reductions));
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

// An export between micro-batches does not change sums or results.
TEST_P(StrategySuite, UnitsMayBeGatheredBetweenMicroBatches) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              ToyStep step;
              step.expected = ToyValue;
              for (int index = 0; index < 3; ++index) {
                ZEROTH_RETURN_IF_ERROR(MicroBatch(*sharding, step, world.rank(), index, 3, true));
                if (index == 2) break;
                for (Unit* unit : sharding->units()) {
                  ZEROTH_RETURN_IF_ERROR(sharding->scheduler().Gather(*unit));
                  ZEROTH_RETURN_IF_ERROR(sharding->scheduler().Reshard(*unit));
                }
                ZEROTH_RETURN_IF_ERROR(CheckFull(*sharding, ToyValue));
              }
              ZEROTH_RETURN_IF_ERROR(
                  CheckGradients(*sharding, PatternMean(world.size(), 6), kMeanTolerance));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
              return CheckAtRest(*sharding);
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, AStepCannotEndBetweenMicroBatches) {
  EXPECT_EQ(
      Run([&](Communicator& world, Device& device) -> absl::Status {
        ToyModel model(UniformUnits(2));
        ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
        for (const bool sync_each : {true, false}) {
          ZEROTH_RETURN_IF_ERROR(MicroBatch(*sharding, ToyStep(), world.rank(), 0, 2, sync_each));
          const absl::Status early = sharding->scheduler().EndStep();
          ZEROTH_TOY_EXPECT(early.code() == absl::StatusCode::kFailedPrecondition);
          ZEROTH_TOY_EXPECT(absl::StrContains(early.message(), "micro-batches"));
          ZEROTH_RETURN_IF_ERROR(sharding->scheduler().Abandon());
          ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
          // The abandoned step has left nothing.
          ZEROTH_RETURN_IF_ERROR(MicroBatches(*sharding, ToyStep(), world.rank(), 1, sync_each));
          ZEROTH_RETURN_IF_ERROR(
              CheckGradients(*sharding, PatternMean(world.size()), kMeanTolerance));
          ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
        }
        return absl::OkStatus();
      }),
      absl::OkStatus());
}

// Units stay gathered from one micro-batch to the next.
TEST_P(StrategySuite, UnitsMayStayGatheredAfterBackward) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(UniformUnits(3));
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              const int rank = world.rank();
              const auto gathers = CollectiveOp::kAllGather;
              ZEROTH_ASSIGN_OR_RETURN(const auto one, Traffic(*sharding, rank, 1, true));
              sharding->scheduler().SetReshardAfterBackward(false);
              ZEROTH_ASSIGN_OR_RETURN(const auto three, Traffic(*sharding, rank, 3, true));
              sharding->scheduler().SetReshardAfterBackward(true);
              // Later forwards find all units gathered, and gather nothing.
              const auto units = static_cast<int64_t>(sharding->units().size());
              if (one.inside_calls(gathers) > 0) {
                ZEROTH_TOY_EXPECT(three.inside_calls(gathers) ==
                                  3 * one.inside_calls(gathers) - 2 * units);
              }
              return CheckAtRest(*sharding);
            }),
            absl::OkStatus());
}

}  // namespace
}  // namespace zeroth
