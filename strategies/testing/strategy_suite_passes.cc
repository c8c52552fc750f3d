// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The strategy suite: unusual passes, and frozen parameters.

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/testing/strategy_suite.h"
#include "zeroth/strategies/testing/toy_training.h"

namespace zeroth {
namespace {

TEST_P(StrategySuite, UnusedUnitsAndMissingGradientsCountAsZeros) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              // Two ordinary steps first, so that buffers hold old gradients and prefetch expects
              // every unit.
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
                // Inference in between, of everything and of one unit alone, keeps nothing and
                // disturbs nothing.
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step, /*expects_backward=*/false));
                ToyStep one = step;
                one.order = {sharding->units()[2]};
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, one, /*expects_backward=*/false));
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
                ZEROTH_RETURN_IF_ERROR(
                    CheckGradients(*sharding, PatternMean(world.size(), 2), kMeanTolerance));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
                ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
              }
              // A forward whose backward never runs.
              ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
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
                // Activation checkpointing: the forward again, inside backward.
                ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(outer, /*expects_backward=*/false));
                ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(outer, /*expects_backward=*/false));
                ZEROTH_TOY_EXPECT(outer.state() == UnitState::kGathered);
                ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(outer));
                ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
                const ToyFormula twice = PatternMean(world.size(), 2);
                ZEROTH_RETURN_IF_ERROR(CheckGradients(
                    *sharding,
                    [&](const Parameter& parameter, int64_t element) {
                      return absl::StartsWith(parameter.name(), inner.name())
                                 ? twice(parameter, element)
                                 : 0.0f;
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
              for (size_t position : {0, 1})
                model.parameter(1, position).set_requires_grad(false);  // all of h.0
              model.parameter(3, 0).set_requires_grad(false);           // most of h.2
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
              const MeshView& mesh = ViewOf(*sharding);
              const std::set<Communicator*> reductions = {
                  &mesh.shard_reduce(), &mesh.replicate_reduce(), &mesh.data_reduce()};
              for (Communicator* group : reductions) {
                group->stats().EnableRecord(true);
              }
              ToyStep step;
              step.gradient = PatternGradient(world.rank());
              step.expected = ToyValue;
              ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
              ZEROTH_RETURN_IF_ERROR(
                  CheckGradients(*sharding, PatternMean(world.size()), kMeanTolerance));
              std::set<std::string> reduced;
              for (Communicator* group : reductions) {
                for (const CommStats::Entry& entry : group->stats().TakeRecord())
                  reduced.insert(entry.label);
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
                    return parameter.requires_grad() ? value - 0.5f * mean(parameter, element)
                                                     : value;
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
                    [&](const Parameter& p, int64_t element) {
                      return p.requires_grad() ? mean(p, element) : 0.0f;
                    },
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
              for (const char* part :
                   {"'h.2.1'", "unit 'h.2'", "frozen when", "set_requires_grad(false)"}) {
                ZEROTH_TOY_EXPECT(absl::StrContains(status.message(), part));
              }
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

}  // namespace
}  // namespace zeroth
