// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/testing/strategy_suite.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/philox.h"

namespace zeroth {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StrategySuite);

std::vector<StrategyCase> StrategyCases(const std::string& strategy) {
  std::vector<StrategyCase> cases;
  for (int world_size : {1, 2, 3, 4, 8}) cases.push_back({strategy, world_size, 0});
  return cases;
}

std::string StrategyCaseName(const testing::TestParamInfo<StrategyCase>& info) {
  const std::string groups = info.param.shard_size == 0 ? "" : absl::StrCat("InGroupsOf", info.param.shard_size);
  return absl::StrCat("On", info.param.world_size, groups);
}

ShardingOptions StrategySuite::Options() const {
  ShardingOptions options;
  options.strategy = GetParam().strategy;
  options.strategy_options.shard_size = GetParam().shard_size;
  return options;
}

absl::StatusOr<std::unique_ptr<Sharding>> StrategySuite::Make(Communicator& world, Device& device,
                                                              const ToyModel& model,
                                                              const ShardingOptions& options) const {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Sharding> sharding, Sharding::Create(world, device, options, model.Specs()));
  ZEROTH_RETURN_IF_ERROR(sharding->Load(ReaderOf(ToyValue)));
  return sharding;
}

namespace {

// Means of these over any number of ranks need more than float's precision only at world sizes that are no power of two.
constexpr double kMeanTolerance = 1e-6;

float ElementPattern(int64_t element) { return static_cast<float>(element % 13 - 6); }

// Rank r contributes (r + 1) times the pattern.
ToyGradient PatternGradient(int rank) {
  return [rank](const Parameter&, int64_t element, float) {
    return static_cast<float>(rank + 1) * ElementPattern(element);
  };
}

ToyFormula PatternSum(int world_size, float times = 1) {
  const float ranks = static_cast<float>(world_size * (world_size + 1) / 2);
  return [ranks, times](const Parameter&, int64_t element) { return times * ranks * ElementPattern(element); };
}

ToyFormula PatternMean(int world_size, float times = 1) {
  return [sum = PatternSum(world_size, times), world_size](const Parameter& parameter, int64_t element) {
    return static_cast<float>(double{sum(parameter, element)} / world_size);
  };
}

// A gradient of random bits that depends on the parameter's value, so that a stale or overwritten buffer anywhere shows
// in every later step.
ToyGradient RandomGradient(int rank, int step) {
  return [rank, step](const Parameter& parameter, int64_t element, float value) {
    const CounterRng rng(static_cast<uint64_t>(step * 100 + rank), parameter.name());
    return 0.01f * value + rng.Uniform(static_cast<uint64_t>(element)) - 0.5f;
  };
}

absl::Status Train(Sharding& sharding, int rank, int steps, ToyStep step = {}) {
  for (int i = 0; i < steps; ++i) {
    step.gradient = RandomGradient(rank, i);
    ZEROTH_RETURN_IF_ERROR(RunToyStep(sharding, step));
    ZEROTH_RETURN_IF_ERROR(CheckAtRest(sharding));
  }
  return absl::OkStatus();
}

// The parameters of all ranks at the end of a run, which must be the same on all of them.
class SharedResult {
 public:
  absl::Status Add(Sharding& sharding) {
    std::vector<float> all;
    ZEROTH_RETURN_IF_ERROR(sharding.VisitFull([&](const Parameter&, int64_t, absl::Span<const float> values) {
      all.insert(all.end(), values.begin(), values.end());
      return absl::OkStatus();
    }));
    std::lock_guard<std::mutex> lock(mutex_);
    if (values_.empty()) values_ = all;
    ZEROTH_TOY_EXPECT(SameBits(values_, all));
    return absl::OkStatus();
  }
  static bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
  const std::vector<float>& values() const { return values_; }

 private:
  std::mutex mutex_;
  std::vector<float> values_;
};

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

TEST_P(StrategySuite, EveryElementIsStoredOnceInAShardGroup) {
  std::mutex mutex;
  int64_t stored = 0;
  int64_t total = 0;
  int groups = 0;
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              const ShardingStats stats = sharding->stats();
              std::lock_guard<std::mutex> lock(mutex);
              stored += stats.local_numel;
              total = stats.total_numel;
              groups = world.size() / sharding->mesh().shard_size();
              ZEROTH_TOY_EXPECT(stats.local_ratio == static_cast<double>(stats.local_numel) / stats.total_numel);
              return absl::OkStatus();
            }),
            absl::OkStatus());
  EXPECT_EQ(total, 5 * 3 + 1 + 7 + 64 + 11 + 1 + 127 + 9 + 1);
  EXPECT_EQ(stored, total * groups);
}

TEST_P(StrategySuite, InitialValuesDoNotDependOnTheStrategy) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              Parameter weight("weight", Shape({31, 3}), Initializer::Normal(0.02f));
              Parameter bias("bias", Shape({31}), Initializer::Ones());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                      Sharding::Create(world, device, Options(), {{"unit", {&weight, &bias}}}));
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
                ZEROTH_RETURN_IF_ERROR(CheckGradients(*sharding, PatternMean(world.size()), kMeanTolerance));
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
              ZEROTH_RETURN_IF_ERROR(Train(*sharding, world.rank(), kSteps));
              const int size = world.size();
              const ToyFormula reference = [=](const Parameter& parameter, int64_t element) {
                double value = ToyValue(parameter, element);
                for (int step = 0; step < kSteps; ++step) {
                  double mean = 0;
                  for (int rank = 0; rank < size; ++rank) {
                    mean += double{RandomGradient(rank, step)(parameter, element, static_cast<float>(value))} / size;
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
                  ZEROTH_RETURN_IF_ERROR(Train(*sharding, world.rank(), 3));
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
                    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
                    return absl::OkStatus();
                  };
                }
                ZEROTH_RETURN_IF_ERROR(Train(*sharding, world.rank(), 3, step));
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
              ZEROTH_RETURN_IF_ERROR(Train(*sharding, 0, 2));
              ZEROTH_RETURN_IF_ERROR(CheckFull(*sharding, [&](const Parameter& parameter, int64_t element) {
                float value = ToyValue(parameter, element);
                for (int step = 0; step < 2; ++step) value -= 0.5f * RandomGradient(0, step)(parameter, element, value);
                return value;
              }));
              ZEROTH_TOY_EXPECT(TotalCalls(*sharding) == 0);
              ZEROTH_TOY_EXPECT(sharding->LocalShardingRatio() == 1);
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, UnusedUnitsAndMissingGradientsCountAsZeros) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              // Two ordinary steps first, so that buffers hold old gradients and prefetch expects every unit.
              ToyStep step;
              step.gradient = PatternGradient(world.rank());
              step.lr = 0;
              ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
              // No rank uses h.1; only rank 0 has a gradient for h.0.1.
              step.order = {sharding->units()[0], sharding->units()[1], sharding->units()[3]};
              step.expected = ToyValue;
              model.parameter(1, 1).set_requires_grad(world.rank() == 0);
              for (int i = 0; i < 2; ++i) {
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
                const ToyFormula mean = PatternMean(world.size());
                const float size = static_cast<float>(world.size());
                ZEROTH_RETURN_IF_ERROR(CheckGradients(
                    *sharding,
                    [&](const Parameter& parameter, int64_t element) {
                      if (absl::StartsWith(parameter.name(), "h.1.")) return 0.0f;
                      if (parameter.name() == "h.0.1") return ElementPattern(element) / size;
                      return mean(parameter, element);
                    },
                    kMeanTolerance));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
                ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
              }
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, ForwardsMayComeSeveralToABackward) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              ToyStep step;
              step.gradient = PatternGradient(world.rank());
              step.expected = ToyValue;
              for (int i = 0; i < 3; ++i) {
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                // Inference in between, of everything and of one unit alone, keeps nothing and disturbs nothing.
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step, /*expects_backward=*/false));
                ToyStep one = step;
                one.order = {sharding->units()[2]};
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, one, /*expects_backward=*/false));
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
                ZEROTH_RETURN_IF_ERROR(CheckGradients(*sharding, PatternMean(world.size(), 2), kMeanTolerance));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
                ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
              }
              // A forward whose backward never comes.
              ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
              ZEROTH_RETURN_IF_ERROR(CheckGradients(*sharding, PatternMean(world.size()), kMeanTolerance));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
              return CheckAtRest(*sharding);
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, InferenceLeavesNothingGathered) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              ToyStep step;
              step.expected = ToyValue;
              for (int i = 0; i < 2; ++i) {
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step, /*expects_backward=*/false));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
                ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
              }
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, UnitsNest) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              Scheduler& scheduler = sharding->scheduler();
              Unit& outer = *sharding->units()[1];
              Unit& inner = *sharding->units()[2];
              for (int i = 0; i < 3; ++i) {
                ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(outer));
                ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(inner));
                ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(inner));
                // The inner unit again: one unit in two places of the model.
                ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(inner));
                ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(inner));
                ZEROTH_TOY_EXPECT(outer.state() == UnitState::kGathered);
                ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(outer));
                ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(outer));
                for (int use = 0; use < 2; ++use) {
                  ToyStep step;
                  step.order = {&inner};
                  step.gradient = PatternGradient(world.rank());
                  step.expected = ToyValue;
                  ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                }
                // Activation checkpointing: the forward once more, inside backward.
                ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(outer, /*expects_backward=*/false));
                ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(outer, /*expects_backward=*/false));
                ZEROTH_TOY_EXPECT(outer.state() == UnitState::kGathered);
                ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(outer));
                ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
                const ToyFormula twice = PatternMean(world.size(), 2);
                ZEROTH_RETURN_IF_ERROR(CheckGradients(
                    *sharding,
                    [&](const Parameter& parameter, int64_t element) {
                      return absl::StartsWith(parameter.name(), inner.name()) ? twice(parameter, element) : 0.0f;
                    },
                    kMeanTolerance));
                ZEROTH_RETURN_IF_ERROR(scheduler.EndStep());
                ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
              }
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, OneUnitIsEnough) {
  for (const bool is_root : {false, true}) {
    EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
                ToyModel model({{"all", {Shape({3}), Shape({17, 5}), Shape({})}, is_root}});
                ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
                ToyStep step;
                step.gradient = PatternGradient(world.rank());
                step.lr = 1;
                ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                const ToyFormula mean = PatternMean(world.size());
                ZEROTH_RETURN_IF_ERROR(CheckFull(
                    *sharding,
                    [&](const Parameter& parameter, int64_t element) {
                      return ToyValue(parameter, element) - mean(parameter, element);
                    },
                    kMeanTolerance));
                return CheckAtRest(*sharding);
              }),
              absl::OkStatus());
  }
}

TEST_P(StrategySuite, FrozenParametersCauseNoGradientTraffic) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              for (size_t position : {0, 1}) model.parameter(1, position).set_requires_grad(false);  // all of h.0
              model.parameter(3, 0).set_requires_grad(false);                                        // most of h.2
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              for (Communicator* group : {&sharding->mesh().shard_reduce(), &sharding->mesh().world_reduce()}) {
                group->stats().EnableRecord(true);
              }
              ToyStep step;
              step.gradient = PatternGradient(world.rank());
              step.expected = ToyValue;
              ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
              ZEROTH_RETURN_IF_ERROR(CheckGradients(*sharding, PatternMean(world.size()), kMeanTolerance));
              std::set<std::string> reduced;
              for (Communicator* group : {&sharding->mesh().shard_reduce(), &sharding->mesh().world_reduce()}) {
                for (const CommStats::Entry& entry : group->stats().TakeRecord()) reduced.insert(entry.label);
              }
              const std::set<std::string> expected = {"root", "h.1", "h.2"};
              ZEROTH_TOY_EXPECT(reduced == (world.size() > 1 ? expected : std::set<std::string>()));
              ZEROTH_RETURN_IF_ERROR(ToyUpdate(*sharding, 0.5f));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
              ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
              const ToyFormula mean = PatternMean(world.size());
              return CheckFull(
                  *sharding,
                  [&](const Parameter& parameter, int64_t element) {
                    const float value = ToyValue(parameter, element);
                    return parameter.requires_grad() ? value - 0.5f * mean(parameter, element) : value;
                  },
                  kMeanTolerance);
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, EverythingMayBeFrozen) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model({{"root", {Shape({5})}, true}, {"h.0", {Shape({33})}}});
              model.parameter(0, 0).set_requires_grad(false);
              model.parameter(1, 0).set_requires_grad(false);
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              ToyStep step;
              ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(CheckFull(*sharding, ToyValue));
              const ShardingStats stats = sharding->stats();
              ZEROTH_TOY_EXPECT(stats.memory[MemoryCategory::kGradients].peak_bytes == 0);
              for (CollectiveOp op : {CollectiveOp::kReduceScatter, CollectiveOp::kAllReduce}) {
                ZEROTH_TOY_EXPECT(stats.collectives[static_cast<size_t>(op)].calls == 0);
              }
              return CheckAtRest(*sharding);
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, ParametersCanBeFrozenAndUnfrozenWhileTraining) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              Parameter& parameter = model.parameter(3, 1);
              for (const bool trainable : {true, false, true}) {
                parameter.set_requires_grad(trainable);
                ToyStep step;
                step.gradient = PatternGradient(world.rank());
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
                const ToyFormula mean = PatternMean(world.size());
                ZEROTH_RETURN_IF_ERROR(CheckGradients(
                    *sharding,
                    [&](const Parameter& p, int64_t element) { return p.requires_grad() ? mean(p, element) : 0.0f; },
                    kMeanTolerance));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
              }
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, AParameterFrozenAtCreationSaysWhyItTakesNoGradient) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              Parameter& parameter = model.parameter(3, 1);
              parameter.set_requires_grad(false);
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              parameter.set_requires_grad(true);
              const absl::Status status = parameter.TakeGradient().status();
              ZEROTH_TOY_EXPECT(absl::IsFailedPrecondition(status));
              for (const char* part : {"'h.2.1'", "unit 'h.2'", "frozen when", "set_requires_grad(false)"}) {
                ZEROTH_TOY_EXPECT(absl::StrContains(status.message(), part));
              }
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
              // All that is below 20 elements, and a part of the 64 and the 127.
              ZEROTH_TOY_EXPECT(sharding->stats().local_numel >= 15 + 1 + 7 + 11 + 1 + 9 + 1);
              if (sharding->mesh().shard_size() > 1) ZEROTH_TOY_EXPECT(sharding->LocalShardingRatio() < 1);
              ZEROTH_RETURN_IF_ERROR(CheckFull(*sharding, ToyValue));
              ToyStep step;
              step.gradient = PatternGradient(world.rank());
              step.expected = ToyValue;
              ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
              ZEROTH_RETURN_IF_ERROR(CheckGradients(*sharding, PatternMean(world.size()), kMeanTolerance));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
              return CheckAtRest(*sharding);
            }),
            absl::OkStatus());
}

// All ranks give up at the same point of the second step, at every point there is; the step after is as if nothing
// had happened.
TEST_P(StrategySuite, AnAbandonedStepLeavesNoTrace) {
  if (world_size() > 4) return;  // nothing here depends on the number of ranks
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              int stages = 0;
              ToyStep step;
              step.gradient = PatternGradient(world.rank());
              step.expected = ToyValue;
              step.lr = 0;
              step.hook = [&](absl::string_view, const Unit*) {
                ++stages;
                return absl::OkStatus();
              };
              ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
              const int stages_of_a_step = stages;
              ZEROTH_TOY_EXPECT(stages_of_a_step == 4 * 4 + 3);
              for (int fail_at = 0; fail_at < stages_of_a_step; ++fail_at) {
                stages = 0;
                ToyStep failing = step;
                failing.hook = [&](absl::string_view, const Unit*) {
                  return stages++ == fail_at ? absl::CancelledError("enough") : absl::OkStatus();
                };
                ZEROTH_TOY_EXPECT(absl::IsCancelled(RunToyStep(*sharding, failing)));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().Abandon());
                ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
                ZEROTH_RETURN_IF_ERROR(CheckGradients(*sharding, PatternMean(world.size()), kMeanTolerance));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
              }
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

// One rank fails and simply returns, at every point of a step: the others must come back, and its error must arrive.
TEST_P(StrategySuite, ARankThatFailsReleasesTheOthersWithItsError) {
  if (world_size() == 1) return;
  for (int fail_at = 0; fail_at < 4 * 4 + 3; fail_at += world_size() > 4 ? 5 : 1) {
    std::mutex mutex;
    int released = 0;
    const absl::Status status = Run([&](Communicator& world, Device& device) -> absl::Status {
      ToyModel model(AwkwardUnits());
      ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
      ZEROTH_RETURN_IF_ERROR(Train(*sharding, world.rank(), 1));
      int stages = 0;
      ToyStep step;
      step.hook = [&](absl::string_view stage, const Unit*) {
        const bool fails = world.rank() == 1 && stages++ == fail_at;
        return fails ? absl::DataLossError(absl::StrCat("the disk of rank 1 is full, ", stage)) : absl::OkStatus();
      };
      const absl::Status trained = Train(*sharding, world.rank(), 3, step);
      ZEROTH_TOY_EXPECT(!trained.ok());
      if (world.rank() == 1) return trained;
      // A rank that was released can still clean up, and is told that this cannot be healed.
      ZEROTH_TOY_EXPECT(!sharding->scheduler().Abandon().ok());
      ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
      std::lock_guard<std::mutex> lock(mutex);
      ++released;
      return trained;
    });
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the disk of rank 1 is full")) << "stage " << fail_at;
    EXPECT_EQ(released, world_size() - 1);
  }
}

TEST_P(StrategySuite, AbortWithTrafficInFlightEndsCleanly) {
  if (world_size() == 1) return;
  const absl::Status status = Run([&](Communicator& world, Device& device) -> absl::Status {
    ToyModel model(AwkwardUnits());
    ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
    ZEROTH_RETURN_IF_ERROR(Train(*sharding, world.rank(), 1));
    ToyStep step;
    step.gradient = PatternGradient(world.rank());
    // Rank 0 stops with prefetches and reductions of its own enqueued, which the sharding outlives by nothing.
    if (world.rank() == 0) {
      step.hook = [&](absl::string_view stage, const Unit* unit) {
        if (stage != "backward" || unit->name() != "h.1") return absl::OkStatus();
        world.Abort(absl::UnavailableError("somebody pulled the plug"));
        return absl::UnavailableError("somebody pulled the plug");
      };
    }
    return RunToyStep(*sharding, step);
  });
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("somebody pulled the plug"));
}

TEST_P(StrategySuite, AnErrorOfAVisitorComesBack) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              const absl::Status visited = sharding->VisitFull(
                  [](const Parameter&, int64_t, absl::Span<const float>) { return absl::AbortedError("seen enough"); });
              ZEROTH_TOY_EXPECT(absl::IsAborted(visited));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
              return CheckAtRest(*sharding);
            }),
            absl::OkStatus());
}

}  // namespace
}  // namespace zeroth
