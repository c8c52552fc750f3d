// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests Sharding's interface: the arguments that it refuses, and the memory and traffic of
// strategies.

#include "zeroth/strategies/sharding.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/testing/toy_model.h"

namespace zeroth {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ShardingOptions OptionsOf(const std::string& strategy, int shard_size = 0) {
  ShardingOptions options;
  options.strategy = strategy;
  options.strategy_options.shard_size = shard_size;
  return options;
}

std::vector<float> Values(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.numel()};
}

// Returns the reduced shard of one parameter in one unit, whose gradient on each rank is given.
absl::StatusOr<std::vector<float>> ReducedShard(Communicator& world, Device& device,
                                                const ShardingOptions& options,
                                                const std::vector<float>& gradient) {
  Parameter parameter("p", Shape({static_cast<int64_t>(gradient.size())}));
  ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                          Sharding::Create(world, device, options, {{"unit", {&parameter}}}));
  ToyStep step;
  step.gradient = [&](const Parameter&, int64_t i, float) {
    return gradient[static_cast<size_t>(i)];
  };
  ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
  ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
  ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
  const Unit& unit = *sharding->units()[0];
  return Values(unit.GradientShardView(unit.PieceOf(0)));
}

TEST(ShardingTest, CutsTenTwentyThirtyFortyInHalves) {
  EXPECT_EQ(
      RunToyRanks(2,
                  [](Communicator& world, Device& device) -> absl::Status {
                    Parameter parameter("p", Shape({4}));
                    ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                            Sharding::Create(world, device, OptionsOf("full_shard"),
                                                             {{"unit", {&parameter}}}));
                    ZEROTH_RETURN_IF_ERROR(sharding->Load(ReaderOf([](const Parameter&, int64_t i) {
                      return 10.0f * static_cast<float>(i + 1);
                    })));
                    const Unit& unit = *sharding->units()[0];
                    const std::vector<float> expected =
                        world.rank() == 0 ? std::vector<float>{10, 20} : std::vector<float>{30, 40};
                    ZEROTH_TOY_EXPECT(Values(unit.ShardView(unit.PieceOf(0))) == expected);
                    return absl::OkStatus();
                  }),
      absl::OkStatus());
}

TEST(ShardingTest, EightRanksHoldAnEighthEach) {
  EXPECT_EQ(RunToyRanks(
                8,
                [](Communicator& world, Device& device) -> absl::Status {
                  Parameter parameter("p", Shape({1024}));
                  ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                          Sharding::Create(world, device, OptionsOf("full_shard"),
                                                           {{"unit", {&parameter}}}));
                  ZEROTH_RETURN_IF_ERROR(sharding->Load(ReaderOf(
                      [](const Parameter&, int64_t i) { return static_cast<float>(i + 1); })));
                  const Unit& unit = *sharding->units()[0];
                  const std::vector<float> shard = Values(unit.ShardView(unit.PieceOf(0)));
                  ZEROTH_TOY_EXPECT(shard.front() == 128.0f * static_cast<float>(world.rank()) + 1);
                  ZEROTH_TOY_EXPECT(shard.size() == 128);
                  ZEROTH_TOY_EXPECT(sharding->ShardMemoryBytes() * 8 ==
                                    sharding->ReplicatedMemoryBytes());
                  ZEROTH_TOY_EXPECT(sharding->LocalShardingRatio() == 0.125);
                  return absl::OkStatus();
                }),
            absl::OkStatus());
}

TEST(ShardingTest, GradientsOfTwoRanksMeetAsShards) {
  for (const ReduceOp op : {ReduceOp::kMean, ReduceOp::kSum}) {
    EXPECT_EQ(RunToyRanks(2,
                          [&](Communicator& world, Device& device) -> absl::Status {
                            ShardingOptions options = OptionsOf("full_shard");
                            options.strategy_options.gradient_op = op;
                            ZEROTH_ASSIGN_OR_RETURN(
                                const std::vector<float> shard,
                                ReducedShard(world, device, options, {1, 2, 3, 4}));
                            const float times = op == ReduceOp::kSum ? 2 : 1;
                            const std::vector<float> expected =
                                world.rank() == 0 ? std::vector<float>{1 * times, 2 * times}
                                                  : std::vector<float>{3 * times, 4 * times};
                            ZEROTH_TOY_EXPECT(shard == expected);
                            return absl::OkStatus();
                          }),
              absl::OkStatus());
  }
}

// Ranks 0 and 2 share the first half of their groups' sums, ranks 1 and 3 the second.
TEST(ShardingTest, OwnersOfAllGroupsReduceInsideAndScatterAcross) {
  EXPECT_EQ(RunToyRanks(4,
                        [](Communicator& world, Device& device) -> absl::Status {
                          const std::vector<float> gradient =
                              world.rank() < 2 ? std::vector<float>{2, 4, 6, 8}
                                               : std::vector<float>{10, 20, 30, 40};
                          ShardingOptions options = OptionsOf("hybrid_shard", 2);
                          options.strategy_options.shard_optimizer_over_world = true;
                          ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> shard,
                                                  ReducedShard(world, device, options, gradient));
                          const float expected[] = {6, 18, 12, 24};
                          ZEROTH_TOY_EXPECT(shard == std::vector<float>{expected[world.rank()]});
                          return absl::OkStatus();
                        }),
            absl::OkStatus());
}

TEST(ShardingTest, HybridReducesInsideGroupsAndThenAcross) {
  EXPECT_EQ(RunToyRanks(4,
                        [](Communicator& world, Device& device) -> absl::Status {
                          const std::vector<float> gradient =
                              world.rank() < 2 ? std::vector<float>{2, 4, 6, 8}
                                               : std::vector<float>{10, 20, 30, 40};
                          ZEROTH_ASSIGN_OR_RETURN(
                              const std::vector<float> shard,
                              ReducedShard(world, device, OptionsOf("hybrid_shard", 2), gradient));
                          const std::vector<float> expected = world.rank() % 2 == 0
                                                                  ? std::vector<float>{6, 12}
                                                                  : std::vector<float>{18, 24};
                          ZEROTH_TOY_EXPECT(shard == expected);
                          return absl::OkStatus();
                        }),
            absl::OkStatus());
}

TEST(ShardingTest, FullParametersShowEveryRanksUpdate) {
  EXPECT_EQ(
      RunToyRanks(2,
                  [](Communicator& world, Device& device) -> absl::Status {
                    Parameter parameter("p", Shape({4}));
                    ZEROTH_ASSIGN_OR_RETURN(
                        auto sharding, Sharding::Create(world, device, OptionsOf("shard_grad_op"),
                                                        {{"unit", {&parameter}}}));
                    ZEROTH_RETURN_IF_ERROR(sharding->Load(ReaderOf(
                        [](const Parameter&, int64_t i) { return static_cast<float>(i + 1); })));
                    ToyStep step;
                    step.gradient = [](const Parameter&, int64_t i, float) {
                      return i < 2 ? -10.0f : -20.0f;
                    };
                    step.lr = 1;
                    ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                    return CheckFull(*sharding, [](const Parameter&, int64_t i) {
                      return std::vector<float>{11, 12, 23, 24}[static_cast<size_t>(i)];
                    });
                  }),
      absl::OkStatus());
}

// The parameters after a few steps on random gradients, from one run of one strategy.
std::vector<float> Trained(int world_size, const ShardingOptions& options) {
  std::mutex mutex;
  std::vector<float> result;
  EXPECT_EQ(RunToyRanks(
                world_size,
                [&](Communicator& world, Device& device) -> absl::Status {
                  ToyModel model(AwkwardUnits());
                  ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                          Sharding::Create(world, device, options, model.Specs()));
                  ZEROTH_RETURN_IF_ERROR(sharding->Load(ReaderOf(ToyValue)));
                  for (int i = 0; i < 4; ++i) {
                    ToyStep step;
                    step.gradient = [&](const Parameter& parameter, int64_t element, float value) {
                      const CounterRng rng(static_cast<uint64_t>(i * 64 + world.rank()),
                                           parameter.name());
                      return 0.1f * value + rng.Uniform(static_cast<uint64_t>(element)) - 0.5f;
                    };
                    ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                  }
                  std::vector<float> all;
                  ZEROTH_RETURN_IF_ERROR(sharding->VisitFull(
                      [&](const Parameter&, int64_t, absl::Span<const float> values) {
                        all.insert(all.end(), values.begin(), values.end());
                        return absl::OkStatus();
                      }));
                  std::lock_guard<std::mutex> lock(mutex);
                  if (world.rank() == 0) result = all;
                  return absl::OkStatus();
                }),
            absl::OkStatus());
  return result;
}

TEST(ShardingTest, AllStrategiesGiveTheSameBits) {
  for (const int world_size : {1, 2, 4, 8}) {
    const std::vector<float> expected = Trained(world_size, OptionsOf("no_shard"));
    ASSERT_FALSE(expected.empty());
    std::vector<ShardingOptions> others = {OptionsOf("shard_grad_op"), OptionsOf("full_shard")};
    for (int shard_size = 1; shard_size <= world_size; shard_size *= 2) {
      others.push_back(OptionsOf("hybrid_shard", shard_size));
      others.push_back(others.back());
      others.back().strategy_options.shard_optimizer_over_world = true;
    }
    ShardingOptions partly = OptionsOf("full_shard");
    partly.min_shard_numel = 10;
    others.push_back(partly);
    for (const ShardingOptions& options : others) {
      const std::vector<float> actual = Trained(world_size, options);
      ASSERT_EQ(actual.size(), expected.size());
      EXPECT_EQ(std::memcmp(actual.data(), expected.data(), actual.size() * sizeof(float)), 0)
          << options.strategy << " in groups of " << options.strategy_options.shard_size << " on "
          << world_size;
    }
  }
}

// The error of Create for these units, the same on every rank.
std::string Refusal(const ShardingOptions& options, const std::vector<UnitSpec>& units) {
  std::string message;
  std::mutex mutex;
  EXPECT_EQ(RunToyRanks(2,
                        [&](Communicator& world, Device& device) -> absl::Status {
                          const absl::Status status =
                              Sharding::Create(world, device, options, units).status();
                          ZEROTH_TOY_EXPECT(absl::IsInvalidArgument(status));
                          std::lock_guard<std::mutex> lock(mutex);
                          ZEROTH_TOY_EXPECT(message.empty() || message == status.message());
                          message = std::string(status.message());
                          return absl::OkStatus();
                        }),
            absl::OkStatus());
  return message;
}

// Every group costs time at the start and memory of the transport. Where there are no groups of
// replicas, or of shards, one group of one rank stands for them.
TEST(ShardingTest, MakesOneGroupForEachUse) {
  struct Case {
    std::string strategy;
    int shard_size;
    int64_t min_shard_numel;
    size_t groups;
  };
  for (const Case& in :
       {Case{"no_shard", 0, 0, 2},         // reductions; one rank
        Case{"full_shard", 0, 0, 3},       // gathers, reductions; one rank
        Case{"full_shard", 0, 100, 3},     // small parameters have no group of their own
        Case{"shard_grad_op", 0, 0, 3},    // as full_shard
        Case{"hybrid_shard", 2, 100, 4}})  // gathers; reductions inside, across and over all
  {
    EXPECT_EQ(RunToyRanks(4,
                          [&](Communicator& world, Device& device) -> absl::Status {
                            ToyModel model({{"a", {Shape({8, 8}), Shape({64, 8})}}});
                            ShardingOptions options = OptionsOf(in.strategy, in.shard_size);
                            options.min_shard_numel = in.min_shard_numel;
                            ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                                    ShardToy(world, device, model, options));
                            ToyStep step;
                            step.gradient = [](const Parameter&, int64_t, float) { return 1.0f; };
                            ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                            ZEROTH_TOY_EXPECT(sharding->mesh().communicators().size() == in.groups);
                            return CheckAtRest(*sharding);
                          }),
              absl::OkStatus())
        << in.strategy << " " << in.min_shard_numel;
  }
}

TEST(ShardingTest, RefusesWhatCannotBeSharded) {
  Parameter a("a", Shape({2}));
  Parameter b("b", Shape({2}));
  Parameter also_a("a", Shape({3}));
  Parameter half("half", Shape({2}), Initializer::Zeros(), DType::kBFloat16);
  const ShardingOptions options;
  EXPECT_THAT(Refusal(options, {}), HasSubstr("no units"));
  EXPECT_THAT(
      Refusal(options, {{"wte", {&a, &b}}, {"head", {&a}}}),
      AllOf(HasSubstr("'a'"), HasSubstr("'wte'"), HasSubstr("'head'"), HasSubstr("one unit")));
  EXPECT_THAT(Refusal(options, {{"wte", {&a, &a}}}), AllOf(HasSubstr("'a'"), HasSubstr("'wte'")));
  EXPECT_THAT(Refusal(options, {{"x", {&a}}, {"y", {&also_a}}}),
              AllOf(HasSubstr("named 'a'"), HasSubstr("'x' and 'y'")));
  EXPECT_THAT(Refusal(options, {{"x", {&a}}, {"x", {&b}}}), HasSubstr("two units are named 'x'"));
  EXPECT_THAT(Refusal(options, {{"x", {&a}, true}, {"y", {&b}, true}}),
              AllOf(HasSubstr("'x' and 'y'"), HasSubstr("root")));
  EXPECT_THAT(Refusal(options, {{"x", {&half}}}), AllOf(HasSubstr("'half'"), HasSubstr("bf16")));
  EXPECT_THAT(Refusal(options, {{"x", {&a, nullptr}}}), AllOf(HasSubstr("'x'"), HasSubstr("null")));
  EXPECT_THAT(Refusal(OptionsOf("zero9"), {{"x", {&a}}}),
              AllOf(HasSubstr("'zero9'"), HasSubstr("full_shard")));
  EXPECT_THAT(Refusal(OptionsOf("hybrid_shard", 3), {{"x", {&a}}}),
              HasSubstr("does not divide the 2 data ranks"));
  for (const char* strategy : {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard"}) {
    ShardingOptions over_world = OptionsOf(strategy);
    over_world.strategy_options.shard_optimizer_over_world = true;
    EXPECT_THAT(Refusal(over_world, {{"x", {&a}}}),
                AllOf(HasSubstr(strategy), HasSubstr("shard_optimizer_over_world"),
                      HasSubstr("hybrid_shard")));
  }
  ShardingOptions negative;
  negative.min_shard_numel = -1;
  EXPECT_THAT(Refusal(negative, {{"x", {&a}}}), HasSubstr("min_shard_numel is -1"));
}

TEST(ShardingTest, ParametersComeInTheOrderInWhichTheyWereGiven) {
  EXPECT_EQ(RunToyRanks(3,
                        [](Communicator& world, Device& device) -> absl::Status {
                          ToyModel model(AwkwardUnits());
                          ZEROTH_ASSIGN_OR_RETURN(
                              auto sharding, Sharding::Create(world, device, {}, model.Specs()));
                          std::vector<std::string> names;
                          for (const Parameter* parameter : sharding->parameters())
                            names.push_back(parameter->name());
                          const std::vector<std::string> expected = {
                              "root.0", "root.1", "h.0.0", "h.0.1", "h.1.0", "h.1.1",
                              "h.1.2",  "h.1.3",  "h.2.0", "h.2.1", "h.2.2"};
                          ZEROTH_TOY_EXPECT(names == expected);
                          ZEROTH_TOY_EXPECT(sharding->FindUnit("h.1") == sharding->units()[2]);
                          ZEROTH_TOY_EXPECT(sharding->FindUnit("h.9") == nullptr);
                          return absl::OkStatus();
                        }),
            absl::OkStatus());
}

// A second sharding of other parameters, and another one of the same after the first is gone.
TEST(ShardingTest, ComesAndGoes) {
  EXPECT_EQ(RunToyRanks(2,
                        [](Communicator& world, Device& device) -> absl::Status {
                          ToyModel model(AwkwardUnits());
                          for (const char* strategy : {"full_shard", "no_shard", "shard_grad_op"}) {
                            ZEROTH_ASSIGN_OR_RETURN(
                                auto sharding, Sharding::Create(world, device, OptionsOf(strategy),
                                                                model.Specs()));
                            ZEROTH_RETURN_IF_ERROR(sharding->Load(ReaderOf(ToyValue)));
                            ToyStep step;
                            step.gradient = [](const Parameter&, int64_t, float) { return 1.0f; };
                            ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                            // In the middle of a step, with traffic in flight.
                            ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                            ZEROTH_RETURN_IF_ERROR(
                                sharding->scheduler().BeforeBackward(*sharding->units()[3]));
                            sharding.reset();
                            ZEROTH_TOY_EXPECT(device.allocator().stats().total.current_bytes == 0);
                            ZEROTH_TOY_EXPECT(!model.parameter(0, 0).data().defined());
                          }
                          return absl::OkStatus();
                        }),
            absl::OkStatus());
}

// 5 rows on 4 ranks leave 3 rows of padding, which nothing ever writes: neither values, nor stale
// gradients of a shared buffer.
TEST(ShardingTest, PaddingOfRowsIsZerosAtTheTail) {
  EXPECT_EQ(RunToyRanks(
                4,
                [](Communicator& world, Device& device) -> absl::Status {
                  ToyModel model({{"h.0", {Shape({5, 3})}}, {"h.1", {Shape({8, 3})}}});
                  ShardingOptions options = OptionsOf("full_shard");
                  options.layout = LayoutKind::kRows;
                  options.scheduler.gather_buffers = 1;
                  options.scheduler.gradient_buffers = 1;
                  ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                          Sharding::Create(world, device, options, model.Specs()));
                  ZEROTH_RETURN_IF_ERROR(sharding->Load(ReaderOf(ToyValue)));
                  ToyStep step;
                  step.gradient = [](const Parameter&, int64_t, float) { return 7.0f; };
                  for (int i = 0; i < 3; ++i) ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                  Unit& unit = *sharding->units()[0];
                  const ShardLayout::Piece piece = unit.PieceOf(0);
                  const int64_t rows[] = {2, 2, 1, 0};
                  ZEROTH_TOY_EXPECT(piece.numel() == 3 * rows[world.rank()]);
                  ZEROTH_TOY_EXPECT(unit.segment(0).shard.numel() == 6);
                  ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                  ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                  ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
                  const std::vector<float> gradient = Values(unit.GradientShardState(0).tensor());
                  for (int64_t i = piece.numel(); i < 6; ++i) {
                    ZEROTH_TOY_EXPECT(gradient[static_cast<size_t>(i)] == 0);
                  }
                  ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
                  ZEROTH_RETURN_IF_ERROR(sharding->scheduler().Gather(unit));
                  ZEROTH_RETURN_IF_ERROR(device.compute_stream().Synchronize());
                  const std::vector<float> full = Values(unit.segment(0).full);
                  ZEROTH_TOY_EXPECT(full.size() == 24);
                  for (size_t i = 0; i < full.size(); ++i) {
                    const float expected =
                        i < 15 ? ToyValue(*unit.parameters()[0], static_cast<int64_t>(i)) - 3 * 3.5f
                               : 0;
                    ZEROTH_TOY_EXPECT(full[i] == expected);
                  }
                  return sharding->scheduler().Reshard(unit);
                }),
            absl::OkStatus());
}

// The mean of 1, 2, 3 and 4 over four micro-batches is 2.5, and cannot be read earlier.
TEST(ShardingTest, FourMicroBatchesAreReadyAtTheFourth) {
  for (const char* strategy :
       {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard", "hybrid_shard"}) {
    for (const bool sync_each : {true, false}) {
      SCOPED_TRACE(absl::StrCat(strategy, sync_each ? " each" : " last"));
      EXPECT_EQ(RunToyRanks(4,
                            [&](Communicator& world, Device& device) -> absl::Status {
                              Parameter parameter("p", Shape({9}));
                              const int shard_size =
                                  std::string(strategy) == "hybrid_shard" ? 2 : 0;
                              ZEROTH_ASSIGN_OR_RETURN(
                                  auto sharding,
                                  Sharding::Create(world, device, OptionsOf(strategy, shard_size),
                                                   {{"unit", {&parameter}}}));
                              const Unit& unit = *sharding->units()[0];
                              Scheduler& scheduler = sharding->scheduler();
                              for (int i = 1; i <= 4; ++i) {
                                scheduler.SetRequiresGradientSync(sync_each || i == 4);
                                scheduler.SetIsLastBackward(i == 4);
                                ToyStep step;
                                step.gradient = [i](const Parameter&, int64_t, float) {
                                  return 0.25f * static_cast<float>(i);
                                };
                                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                                ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                                ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
                                const bool ready = unit.gradient_state() == GradientState::kReduced;
                                ZEROTH_TOY_EXPECT(ready == (i == 4));
                                ZEROTH_TOY_EXPECT(unit.GradientShardState(0).defined() == (i == 4));
                              }
                              ZEROTH_RETURN_IF_ERROR(CheckGradients(
                                  *sharding, [](const Parameter&, int64_t) { return 2.5f; }));
                              return scheduler.EndStep();
                            }),
                absl::OkStatus());
    }
  }
}

// A parameter below the minimum is replicated, all-reduced over all ranks, and counted in full.
TEST(ShardingTest, SmallParametersStayWholeAndAreAllReduced) {
  EXPECT_EQ(
      RunToyRanks(
          4,
          [](Communicator& world, Device& device) -> absl::Status {
            Parameter small("small", Shape({8}));
            Parameter large("large", Shape({1024}));
            ShardingOptions options = OptionsOf("full_shard");
            options.min_shard_numel = 16;
            ZEROTH_ASSIGN_OR_RETURN(auto sharding, Sharding::Create(world, device, options,
                                                                    {{"unit", {&small, &large}}}));
            ZEROTH_RETURN_IF_ERROR(sharding->Load(ReaderOf(ToyValue)));
            ZEROTH_TOY_EXPECT(sharding->parameters() == (std::vector<Parameter*>{&small, &large}));
            ZEROTH_TOY_EXPECT(sharding->LocalShardingRatio() == (8 + 256) / 1032.0);
            ToyStep step;
            step.gradient = [&](const Parameter&, int64_t i, float) {
              return static_cast<float>((world.rank() + 1) * (i % 5));
            };
            step.lr = 1;
            ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
            const CommStats::Counters calls = sharding->stats().collectives;
            const auto of = [&](CollectiveOp op) { return calls[static_cast<size_t>(op)]; };
            ZEROTH_TOY_EXPECT(of(CollectiveOp::kAllReduce).calls == 1);
            ZEROTH_TOY_EXPECT(of(CollectiveOp::kAllReduce).bytes == 2 * 8 * 4 * 3 / 4);
            ZEROTH_TOY_EXPECT(of(CollectiveOp::kReduceScatter).calls == 1);
            ZEROTH_TOY_EXPECT(of(CollectiveOp::kReduceScatter).bytes == 1024 * 4 * 3 / 4);
            // The mean over ranks of 1, 2, 3 and 4 times the pattern.
            return CheckFull(*sharding, [](const Parameter& parameter, int64_t i) {
              return ToyValue(parameter, i) - 2.5f * static_cast<float>(i % 5);
            });
          }),
      absl::OkStatus());
}

TEST(ShardingTest, AReaderThatFailsIsQuotedWithTheParameter) {
  EXPECT_EQ(
      RunToyRanks(1,
                  [](Communicator& world, Device& device) -> absl::Status {
                    ToyModel model(AwkwardUnits());
                    ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                            Sharding::Create(world, device, {}, model.Specs()));
                    const absl::Status status =
                        sharding->Load([](const Parameter& parameter, int64_t, absl::Span<float>) {
                          return parameter.name() == "h.1.1" ? absl::DataLossError("truncated")
                                                             : absl::OkStatus();
                        });
                    ZEROTH_TOY_EXPECT(absl::IsDataLoss(status));
                    ZEROTH_TOY_EXPECT(absl::StrContains(status.message(), "parameter 'h.1.1'"));
                    return absl::OkStatus();
                  }),
      absl::OkStatus());
}

// However many ranks hold an element, one of them reads it, and all have it.
TEST(ShardingTest, ReplicasDivideTheReadingOfParameters) {
  struct Case {
    std::string strategy;
    int world_size;
    int shard_size;
    int64_t min_shard_numel;
    int64_t block_numel;
    bool offloads;
  };
  for (const Case& with : {Case{"no_shard", 3, 0, 0, 1, false},
                           {"no_shard", 4, 0, 0, 64, true},
                           {"full_shard", 3, 0, 100, 1, false},
                           {"hybrid_shard", 6, 2, 100, 16, false},
                           {"hybrid_shard", 4, 2, 0, 1, true},
                           {"shard_optimizer", 2, 0, 0, 1, false}}) {
    SCOPED_TRACE(absl::StrCat(with.strategy, " of ", with.world_size));
    std::mutex mutex;
    std::map<std::string, std::vector<int>> reads;  // by parameter: of each element
    const absl::Status status =
        RunToyRanks(with.world_size, [&](Communicator& world, Device& device) -> absl::Status {
          ToyModel model(UniformUnits(2));
          ShardingOptions options = OptionsOf(with.strategy, with.shard_size);
          options.min_shard_numel = with.min_shard_numel;
          options.block_numel = with.block_numel;
          options.offload.parameters = with.offloads;
          ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                  Sharding::Create(world, device, options, model.Specs()));
          ZEROTH_RETURN_IF_ERROR(
              sharding->Load([&](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
                const std::lock_guard lock(mutex);
                std::vector<int>& of = reads[parameter.name()];
                of.resize(static_cast<size_t>(parameter.global_numel()));
                for (size_t i = 0; i < out.size(); ++i) {
                  ++of[static_cast<size_t>(begin) + i];
                  out[i] = ToyValue(parameter, begin + static_cast<int64_t>(i));
                }
                return absl::OkStatus();
              }));
          ZEROTH_RETURN_IF_ERROR(CheckShards(*sharding, ToyValue));
          return CheckFull(*sharding, ToyValue);
        });
    ASSERT_EQ(status, absl::OkStatus());
    int64_t elements = 0;
    int64_t repeated = 0;
    for (const auto& [name, of] : reads) {
      for (const int count : of) {
        ASSERT_GE(count, 1) << name;
        ++elements;
        repeated += count > 1 ? 1 : 0;
      }
    }
    // The end of each of a rank's shards, of less than a block for each rank, is read by all.
    EXPECT_LE(repeated, elements / 10);
  }
}

// A rank that cannot read fails the call on every rank, before anything is sent.
TEST(ShardingTest, AllRanksReturnTheErrorOfAReader) {
  EXPECT_EQ(
      RunToyRanks(2,
                  [](Communicator& world, Device& device) -> absl::Status {
                    ToyModel model(UniformUnits(1));
                    ZEROTH_ASSIGN_OR_RETURN(
                        auto sharding,
                        Sharding::Create(world, device, OptionsOf("no_shard"), model.Specs()));
                    const int rank = world.rank();
                    const absl::Status status =
                        sharding->Load([rank](const Parameter&, int64_t, absl::Span<float>) {
                          return rank == 1 ? absl::DataLossError("truncated") : absl::OkStatus();
                        });
                    ZEROTH_TOY_EXPECT(absl::IsDataLoss(status));
                    ZEROTH_TOY_EXPECT(absl::StrContains(status.message(), "rank 1: "));
                    return absl::OkStatus();
                  }),
      absl::OkStatus());
}

// The record and the counters agree with the formulas of the literature: bytes that a rank sends.
TEST(ShardingTest, CountsCallsAndBytes) {
  EXPECT_EQ(
      RunToyRanks(
          4,
          [](Communicator& world, Device& device) -> absl::Status {
            Parameter parameter("p", Shape({1024}));
            ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                    Sharding::Create(world, device, {}, {{"unit", {&parameter}}}));
            ToyStep step;
            step.gradient = [](const Parameter&, int64_t, float) { return 1.0f; };
            ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
            const ShardingStats stats = sharding->stats();
            const auto& gathers = stats.collectives[static_cast<size_t>(CollectiveOp::kAllGather)];
            const auto& scatters =
                stats.collectives[static_cast<size_t>(CollectiveOp::kReduceScatter)];
            ZEROTH_TOY_EXPECT(gathers.calls == 2 && gathers.bytes == 2 * 1024 * 4 * 3 / 4);
            ZEROTH_TOY_EXPECT(scatters.calls == 1 && scatters.bytes == 1024 * 4 * 3 / 4);
            ZEROTH_TOY_EXPECT(stats.memory[MemoryCategory::kParameters].current_bytes == 1024);
            return absl::OkStatus();
          }),
      absl::OkStatus());
}

}  // namespace
}  // namespace zeroth
