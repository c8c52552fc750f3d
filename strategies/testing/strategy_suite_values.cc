// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The strategy suite: gathered values, reduced gradients, results of training.

#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/testing/strategy_suite.h"
#include "zeroth/strategies/testing/toy_training.h"

namespace zeroth {
namespace {

int64_t TotalCalls(const Sharding& sharding) {
  int64_t calls = 0;
  for (const CommStats::Counter& counter : sharding.stats().collectives) calls += counter.calls;
  return calls;
}

TEST_P(StrategySuite, GathersTheExactValues) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              ZEROTH_RETURN_IF_ERROR(CheckShards(*sharding, ToyValue));
              ZEROTH_RETURN_IF_ERROR(CheckFull(*sharding, ToyValue));
              for (Unit* unit : sharding->units()) {
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().Gather(*unit));
                for (const Parameter* parameter : unit->parameters()) {
                  ZEROTH_TOY_EXPECT(parameter->data().shape() == parameter->shape());
                }
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().Reshard(*unit));
              }
              return CheckAtRest(*sharding);
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, EveryElementIsStoredOnceAmongItsOwners) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              const ShardingStats stats = sharding->stats();
              ZEROTH_ASSIGN_OR_RETURN(const int64_t stored,
                                      SumOverRanks(world, device, stats.local_numel));
              ZEROTH_TOY_EXPECT(stats.total_numel == 5 * 3 + 1 + 7 + 64 + 11 + 1 + 127 + 9 + 1);
              ZEROTH_TOY_EXPECT(stored * ViewOf(*sharding).owner_count() ==
                                stats.total_numel * world.size());
              ZEROTH_TOY_EXPECT(ViewOf(*sharding).owners_span_groups() == OwnersSpanGroups());
              ZEROTH_TOY_EXPECT(stats.local_ratio ==
                                static_cast<double>(stats.local_numel) / stats.total_numel);
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, InitialValuesDoNotDependOnTheStrategy) {
  EXPECT_EQ(
      Run([&](Communicator& world, Device& device) -> absl::Status {
        Parameter weight("weight", Shape({31, 3}), Initializer::Normal(0.02f));
        Parameter bias("bias", Shape({31}), Initializer::Ones());
        ZEROTH_ASSIGN_OR_RETURN(auto sharding, Sharding::Create(world, device, Options(),
                                                                {{"unit", {&weight, &bias}}}));
        ZEROTH_RETURN_IF_ERROR(sharding->Initialize(7));
        return CheckFull(*sharding, [](const Parameter& parameter, int64_t element) {
          float value = 0;
          parameter.initializer().Fill(7, parameter.name(), element, absl::MakeSpan(&value, 1));
          return value;
        });
      }),
      absl::OkStatus());
}

TEST_P(StrategySuite, TakesTheMeanOfGradients) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              for (int i = 0; i < 3; ++i) {
                ToyStep step;
                step.gradient = PatternGradient(world.rank());
                step.expected = ToyValue;
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
                ZEROTH_RETURN_IF_ERROR(
                    CheckGradients(*sharding, PatternMean(world.size()), kMeanTolerance));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
                ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
              }
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, TakesTheSumOnRequest) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ShardingOptions options = Options();
              options.strategy_options.gradient_op = ReduceOp::kSum;
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
              ToyStep step;
              step.gradient = PatternGradient(world.rank());
              ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
              return CheckGradients(*sharding, PatternSum(world.size()));
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, TrainsAsOneRankWouldOnTheMeanGradient) {
  constexpr int kSteps = 4;
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              ZEROTH_RETURN_IF_ERROR(ToyTrain(*sharding, world.rank(), kSteps));
              const int size = world.size();
              const ToyFormula reference = [=](const Parameter& parameter, int64_t element) {
                double value = ToyValue(parameter, element);
                for (int step = 0; step < kSteps; ++step) {
                  double mean = 0;
                  for (int rank = 0; rank < size; ++rank) {
                    mean += double{RandomGradient(rank, step)(parameter, element,
                                                              static_cast<float>(value))} /
                            size;
                  }
                  value -= 0.5 * mean;
                }
                return static_cast<float>(value);
              };
              return CheckFull(*sharding, reference, 2e-6);
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, PrefetchAndBufferLimitsChangeNoBit) {
  std::vector<float> expected;
  for (const bool prefetch : {false, true}) {
    for (const int buffers : {1, 2, 3}) {
      SharedResult result;
      EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
                  ToyModel model(AwkwardUnits());
                  ShardingOptions options = Options();
                  options.scheduler = {prefetch, buffers, buffers};
                  ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
                  ZEROTH_RETURN_IF_ERROR(ToyTrain(*sharding, world.rank(), 3));
                  return result.Add(*sharding);
                }),
                absl::OkStatus());
      if (expected.empty()) expected = result.values();
      EXPECT_TRUE(SharedResult::SameBits(result.values(), expected)) << prefetch << " " << buffers;
    }
  }
}

TEST_P(StrategySuite, RandomDelaysChangeNoBit) {
  std::vector<float> expected;
  for (const bool delayed : {false, true}) {
    SharedResult result;
    EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
                ToyModel model(AwkwardUnits());
                ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
                std::mt19937 random(static_cast<unsigned>(world.rank()));
                ToyStep step;
                if (delayed) {
                  step.hook = [&](absl::string_view, const Unit*) {
                    if (random() % 4 == 0)
                      std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
                    if (random() % 64 == 0)
                      std::this_thread::sleep_for(std::chrono::microseconds(random() % 100000));
                    return absl::OkStatus();
                  };
                }
                ZEROTH_RETURN_IF_ERROR(ToyTrain(*sharding, world.rank(), 3, step));
                return result.Add(*sharding);
              }),
              absl::OkStatus());
    if (expected.empty()) expected = result.values();
    EXPECT_TRUE(SharedResult::SameBits(result.values(), expected));
  }
}

TEST_P(StrategySuite, OneRankIssuesNoCollective) {
  if (world_size() > 1) return;
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              ZEROTH_RETURN_IF_ERROR(ToyTrain(*sharding, 0, 2));
              ZEROTH_RETURN_IF_ERROR(
                  CheckFull(*sharding, [&](const Parameter& parameter, int64_t element) {
                    float value = ToyValue(parameter, element);
                    for (int step = 0; step < 2; ++step)
                      value -= 0.5f * RandomGradient(0, step)(parameter, element, value);
                    return value;
                  }));
              ZEROTH_TOY_EXPECT(TotalCalls(*sharding) == 0);
              ZEROTH_TOY_EXPECT(sharding->LocalShardingRatio() == 1);
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, SmallParametersMayStayWhole) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ShardingOptions options = Options();
              options.min_shard_numel = 20;
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
              ZEROTH_TOY_EXPECT(sharding->parameters().size() == 11);
              // Each rank holds all parameters below 20 elements, and a part of the two larger
              // ones.
              ZEROTH_TOY_EXPECT(sharding->stats().local_numel >= 15 + 1 + 7 + 11 + 1 + 9 + 1);
              if (ViewOf(*sharding).owner_count() > 1)
                ZEROTH_TOY_EXPECT(sharding->LocalShardingRatio() < 1);
              ZEROTH_RETURN_IF_ERROR(CheckFull(*sharding, ToyValue));
              ToyStep step;
              step.gradient = PatternGradient(world.rank());
              step.expected = ToyValue;
              ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
              ZEROTH_RETURN_IF_ERROR(
                  CheckGradients(*sharding, PatternMean(world.size()), kMeanTolerance));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
              return CheckAtRest(*sharding);
            }),
            absl::OkStatus());
}

}  // namespace
}  // namespace zeroth
