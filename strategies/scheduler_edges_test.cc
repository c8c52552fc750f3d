// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests edge cases of a step: ranks that use different units, forwards without a backward, gathers
// between the update and the step's end, options set too late, units of another sharding, and the
// memory of 16-bit gradients.

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/scheduler.h"
#include "zeroth/strategies/testing/toy_model.h"

namespace zeroth {
namespace {

ShardingOptions OptionsOf(const std::string& strategy) {
  ShardingOptions options;
  options.strategy = strategy;
  if (strategy == "hybrid_shard") options.strategy_options.shard_size = 1;
  return options;
}

absl::Status ExpectError(const absl::Status& status, absl::StatusCode code,
                         const std::vector<std::string>& parts) {
  bool as_expected = status.code() == code;
  for (const std::string& part : parts) as_expected &= absl::StrContains(status.message(), part);
  return as_expected ? absl::OkStatus()
                     : absl::InternalError(absl::StrCat("got another error: ", status.ToString()));
}

ToyGradient Ones() {
  return [](const Parameter&, int64_t, float) { return 1.0f; };
}

// In every micro-batch one rank leaves a unit out, and another uses them in another order.
TEST(SchedulerEdgesTest, RanksMayUseDifferentUnitsWhereNothingIsGathered) {
  constexpr int kRanks = 4;
  for (const char* strategy : {"no_shard", "hybrid_shard"}) {
    for (const int micro_batches : {1, 2}) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        SCOPED_TRACE(testing::Message()
                     << strategy << " " << micro_batches << " " << DTypeName(dtype));
        EXPECT_EQ(RunToyRanks(kRanks,
                              [&](Communicator& world, Device& device) -> absl::Status {
                                ToyModel model(UniformUnits(3));
                                ShardingOptions options = OptionsOf(strategy);
                                options.mixed_precision = {dtype, dtype};
                                ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                                        ShardToy(world, device, model, options));
                                const absl::Span<Unit* const> units = sharding->units();
                                for (int step_index = 0; step_index < 3; ++step_index) {
                                  for (int i = 0; i < micro_batches; ++i) {
                                    sharding->scheduler().SetIsLastBackward(i + 1 == micro_batches);
                                    ToyStep step;
                                    step.gradient = Ones();
                                    step.order = {units.begin(), units.end()};
                                    if (world.rank() == 1)
                                      step.order = {units[0], units[1], units[3]};
                                    if (world.rank() == 2)
                                      step.order = {units[0], units[3], units[1], units[2]};
                                    ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                                    ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                                    ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
                                  }
                                  const float all = static_cast<float>(micro_batches);
                                  ZEROTH_RETURN_IF_ERROR(CheckGradients(
                                      *sharding, [&](const Parameter& parameter, int64_t) {
                                        const bool left_out =
                                            absl::StartsWith(parameter.name(), "h.1.");
                                        return left_out ? all * (kRanks - 1) / kRanks : all;
                                      }));
                                  ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
                                }
                                return CheckAtRest(*sharding);
                              }),
                  absl::OkStatus());
      }
    }
  }
}

// If units are gathered, ranks cannot use different units.
TEST(SchedulerEdgesTest, ARankThatLeavesOutAUnitThatOthersGatherGetsAnError) {
  for (const char* strategy : {"full_shard", "shard_grad_op", "shard_optimizer"}) {
    const absl::Status status =
        RunToyRanks(2, [&](Communicator& world, Device& device) -> absl::Status {
          ToyModel model(UniformUnits(3));
          ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                  ShardToy(world, device, model, OptionsOf(strategy)));
          const absl::Span<Unit* const> units = sharding->units();
          ToyStep step;
          step.gradient = Ones();
          step.order = {units.begin(), units.end()};
          if (world.rank() == 1) step.order = {units[0], units[1], units[3]};
          return RunToyStep(*sharding, step);
        });
    EXPECT_EQ(ExpectError(status, absl::StatusCode::kFailedPrecondition,
                          {"all_gather 'h.1'", "all_gather 'h.2'", "same calls in the same order"}),
              absl::OkStatus())
        << strategy;
  }
}

// The second micro-batch reduces and frees the unit as if there had been no first one.
TEST(SchedulerEdgesTest, AForwardWithoutBackwardEndsWithItsMicroBatch) {
  EXPECT_EQ(RunToyRanks(2,
                        [](Communicator& world, Device& device) -> absl::Status {
                          ToyModel model(UniformUnits(2));
                          ShardingOptions options = OptionsOf("full_shard");
                          options.strategy_options.reshard_after_forward = false;
                          ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                                  ShardToy(world, device, model, options));
                          Scheduler& scheduler = sharding->scheduler();
                          Unit& unit = *sharding->units()[1];
                          scheduler.SetIsLastBackward(false);
                          ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(unit));
                          ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(unit));
                          ZEROTH_TOY_EXPECT(unit.state() == UnitState::kGathered);
                          ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
                          ZEROTH_TOY_EXPECT(unit.state() == UnitState::kSharded);
                          ZEROTH_RETURN_IF_ERROR(ExpectError(scheduler.BeforeBackward(unit),
                                                             absl::StatusCode::kFailedPrecondition,
                                                             {"'h.0'"}));
                          scheduler.SetIsLastBackward(true);
                          ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(unit));
                          ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(unit));
                          ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(unit));
                          ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(unit));
                          ZEROTH_TOY_EXPECT(unit.gradient_state() == GradientState::kReduced);
                          ZEROTH_TOY_EXPECT(unit.state() == UnitState::kSharded);
                          ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
                          ZEROTH_RETURN_IF_ERROR(scheduler.EndStep());
                          return CheckAtRest(*sharding);
                        }),
            absl::OkStatus());
}

// An update may be enqueued at any time between FinishBackward and EndStep, and must not overlap a
// gather. Here the compute stream is the rank's thread, so what it waits for is over when a call
// returns.
TEST(SchedulerEdgesTest, AGatherBeforeTheStepEndsIsOverBeforeTheUpdate) {
  EXPECT_EQ(RunToyRanks(2,
                        [](Communicator& world, Device& device) -> absl::Status {
                          ToyModel model(UniformUnits(2));
                          ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model,
                                                                          OptionsOf("full_shard")));
                          Unit& unit = *sharding->units()[2];
                          ToyStep step;
                          step.gradient = Ones();
                          step.hook = [&](absl::string_view stage, const Unit*) -> absl::Status {
                            if (stage != "before update") return absl::OkStatus();
                            // Until it calls, the gather cannot be over.
                            if (world.rank() == 1) {
                              std::this_thread::sleep_for(std::chrono::milliseconds(30));
                            }
                            ZEROTH_RETURN_IF_ERROR(
                                sharding->scheduler().Unshard(unit, /*async=*/true).status());
                            ZEROTH_TOY_EXPECT(unit.gather_event()->IsDone());
                            return absl::OkStatus();
                          };
                          ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                          return CheckAtRest(*sharding);
                        }),
            absl::OkStatus());
}

// The head's gradient is made with the loss, in forward.
TEST(SchedulerEdgesTest, AnnouncingMicroBatchesTooLateIsAnError) {
  for (const bool syncs : {true, false}) {
    EXPECT_EQ(RunToyRanks(2,
                          [&](Communicator& world, Device& device) -> absl::Status {
                            ToyModel model(UniformUnits(1));
                            ShardingOptions options = OptionsOf("no_shard");
                            options.mixed_precision = {DType::kBFloat16, DType::kBFloat16};
                            ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                                    ShardToy(world, device, model, options));
                            Scheduler& scheduler = sharding->scheduler();
                            Unit& root = *sharding->units()[0];
                            ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(root));
                            ZEROTH_RETURN_IF_ERROR(model.parameter(0, 0).TakeGradient().status());
                            ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(root));
                            scheduler.SetRequiresGradientSync(syncs);
                            scheduler.SetIsLastBackward(false);
                            ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(root));
                            absl::Status status = scheduler.AfterBackward(root);
                            status.Update(scheduler.FinishBackward());
                            ZEROTH_RETURN_IF_ERROR(ExpectError(
                                status, absl::StatusCode::kFailedPrecondition,
                                {"'root'", "began in bf16", "in fp32", "before the forward"}));
                            ZEROTH_RETURN_IF_ERROR(scheduler.Abandon());
                            return CheckAtRest(*sharding);
                          }),
              absl::OkStatus());
  }
}

TEST(SchedulerEdgesTest, UnitsOfNobodyAndOfOthersAreRefused) {
  EXPECT_EQ(
      RunToyRanks(1,
                  [](Communicator& world, Device& device) -> absl::Status {
                    ToyModel model(UniformUnits(2));
                    ToyModel other_model(UniformUnits(3));
                    const ShardingOptions options = OptionsOf("full_shard");
                    ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model, options));
                    ZEROTH_ASSIGN_OR_RETURN(auto other,
                                            ShardToy(world, device, other_model, options));
                    Scheduler& scheduler = sharding->scheduler();
                    Unit& own = *sharding->units()[1];
                    // Foreign units with an index that is in use here, and with one that is not.
                    for (Unit* const foreign : {other->units()[1], other->units()[3]}) {
                      for (const absl::Status& status :
                           {scheduler.BeforeForward(*foreign), scheduler.AfterForward(*foreign),
                            scheduler.BeforeBackward(*foreign), scheduler.AfterBackward(*foreign),
                            scheduler.Gather(*foreign), scheduler.Reshard(*foreign),
                            scheduler.Prefetch(*foreign), scheduler.Unshard(*foreign).status(),
                            scheduler.GatherMasters(*foreign).status(),
                            scheduler.SetForwardPrefetch(*foreign, {}),
                            scheduler.SetBackwardPrefetch(*foreign, {}),
                            scheduler.SetForwardPrefetch(own, {foreign}),
                            scheduler.SetBackwardPrefetch(own, {&own, foreign})}) {
                        ZEROTH_RETURN_IF_ERROR(ExpectError(
                            status, absl::StatusCode::kInvalidArgument,
                            {absl::StrCat("'", foreign->name(), "'"), "another sharding"}));
                      }
                    }
                    for (const absl::Status& status :
                         {scheduler.SetForwardPrefetch(own, {nullptr}),
                          scheduler.SetBackwardPrefetch(own, {&own, nullptr})}) {
                      ZEROTH_RETURN_IF_ERROR(
                          ExpectError(status, absl::StatusCode::kInvalidArgument, {"null unit"}));
                    }
                    ToyStep step;
                    step.gradient = Ones();
                    return RunToyStep(*sharding, step);
                  }),
      absl::OkStatus());
}

// The gradients of a single micro-batch have 16 bits, sums of several have 32. The middle unit's
// gradients exceed a small 16-bit buffer but not a small fp32 one, and must not have buffers of a
// third size.
TEST(SchedulerEdgesTest, LowPrecisionGradientsTakeTurnsInBuffersOfTwoSizes) {
  EXPECT_EQ(RunToyRanks(2,
                        [](Communicator& world, Device& device) -> absl::Status {
                          const Shape large({64, 128});
                          const Shape middle({1500});
                          const Shape small({960});
                          ToyModel model({{"a", {large}},
                                          {"a.middle", {middle}},
                                          {"a.small", {small}},
                                          {"b", {large}},
                                          {"b.middle", {middle}},
                                          {"b.small", {small}}});
                          ShardingOptions options = OptionsOf("full_shard");
                          options.mixed_precision.reduce_dtype = DType::kBFloat16;
                          ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                                  ShardToy(world, device, model, options));
                          ToyStep step;
                          step.gradient = Ones();
                          for (int i = 0; i < 2; ++i) {
                            ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                          }
                          int64_t shards = 0;
                          for (const Unit* unit : sharding->units()) {
                            shards += 2 * unit->segment_layout(0).shard_numel;
                          }
                          const int64_t turns = 2 * 2 * (large.numel() + small.numel());
                          ZEROTH_TOY_EXPECT(
                              device.allocator().stats()[MemoryCategory::kGradients].peak_bytes <=
                              shards + turns + 6 * ShardLayout::kAlignmentBytes);
                          return CheckAtRest(*sharding);
                        }),
            absl::OkStatus());
}

}  // namespace
}  // namespace zeroth
