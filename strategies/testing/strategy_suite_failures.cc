// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The strategy suite: steps that are abandoned, ranks that fail.

#include <latch>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/testing/strategy_suite.h"
#include "zeroth/strategies/testing/toy_training.h"

namespace zeroth {
namespace {

// All ranks abandon the second step at the same point, for every possible point; the next step is
// as if nothing had happened.
absl::Status AbandonEverywhere(Sharding& sharding, int rank, int world_size) {
  int stages = 0;
  ToyStep step;
  step.gradient = PatternGradient(rank);
  step.expected = ToyValue;
  step.lr = 0;
  step.hook = [&](absl::string_view, const Unit*) {
    ++stages;
    return absl::OkStatus();
  };
  ZEROTH_RETURN_IF_ERROR(RunToyStep(sharding, step));
  const int stages_of_a_step = stages;
  ZEROTH_TOY_EXPECT(stages_of_a_step == 4 * 4 + 3);
  for (int fail_at = 0; fail_at < stages_of_a_step; ++fail_at) {
    stages = 0;
    ToyStep failing = step;
    failing.hook = [&](absl::string_view, const Unit*) {
      return stages++ == fail_at ? absl::CancelledError("enough") : absl::OkStatus();
    };
    ZEROTH_TOY_EXPECT(absl::IsCancelled(RunToyStep(sharding, failing)));
    ZEROTH_RETURN_IF_ERROR(sharding.scheduler().Abandon());
    ZEROTH_RETURN_IF_ERROR(CheckAtRest(sharding));
    ZEROTH_RETURN_IF_ERROR(ToyForward(sharding, step));
    ZEROTH_RETURN_IF_ERROR(ToyBackward(sharding, step));
    ZEROTH_RETURN_IF_ERROR(sharding.scheduler().FinishBackward());
    ZEROTH_RETURN_IF_ERROR(CheckGradients(sharding, PatternMean(world_size), kMeanTolerance));
    ZEROTH_RETURN_IF_ERROR(sharding.scheduler().EndStep());
  }
  return absl::OkStatus();
}

TEST_P(StrategySuite, AnAbandonedStepLeavesNoTrace) {
  if (world_size() > 4) return;  // nothing here depends on the number of ranks
  for (const bool offloads : {false, true}) {
    if (offloads && !SupportsOffload()) continue;
    SCOPED_TRACE(testing::Message() << "offloads: " << offloads);
    EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
                ToyModel model(AwkwardUnits());
                ShardingOptions options = Options();
                options.offload.parameters = offloads;
                options.offload.gradients = offloads;
                ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
                return AbandonEverywhere(*sharding, world.rank(), world.size());
              }),
              absl::OkStatus());
  }
}

// One rank fails and simply returns, at every point of a step: the others must return, with its
// error.
TEST_P(StrategySuite, ARankThatFailsReleasesTheOthersWithItsError) {
  if (world_size() == 1) return;
  for (int fail_at = 0; fail_at<4 * 4 + 3; fail_at += world_size()> 4 ? 5 : 1) {
    std::mutex mutex;
    int to_release = 0;
    int released = 0;
    // A rank may learn of the failure anywhere; here it must be in later steps.
    std::latch ready(ranks_of_process());
    const absl::Status status = Run([&](Communicator& world, Device& device) -> absl::Status {
      ToyModel model(AwkwardUnits());
      std::unique_ptr<Sharding> sharding;
      const absl::Status prepared = [&]() -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(sharding, Make(world, device, model));
        ZEROTH_RETURN_IF_ERROR(ToyTrain(*sharding, world.rank(), 1));
        ZEROTH_RETURN_IF_ERROR(world.Barrier(device.compute_stream(), "before the failure"));
        return device.compute_stream().Synchronize();
      }();
      ready.arrive_and_wait();
      ZEROTH_RETURN_IF_ERROR(prepared);
      int stages = 0;
      ToyStep step;
      step.hook = [&](absl::string_view stage, const Unit*) {
        const bool fails = world.rank() == 1 && stages++ == fail_at;
        return fails ? absl::DataLossError(absl::StrCat("the disk of rank 1 is full, ", stage))
                     : absl::OkStatus();
      };
      const absl::Status trained = ToyTrain(*sharding, world.rank(), 3, step);
      ZEROTH_TOY_EXPECT(!trained.ok());
      if (world.rank() == 1) return trained;
      {
        std::lock_guard<std::mutex> lock(mutex);
        ++to_release;
      }
      // A released rank can still clean up, and is told that it cannot recover.
      ZEROTH_TOY_EXPECT(!sharding->scheduler().Abandon().ok());
      ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
      std::lock_guard<std::mutex> lock(mutex);
      ++released;
      return trained;
    });
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the disk of rank 1 is full"))
        << "stage " << fail_at;
    EXPECT_EQ(released, to_release);
    if (ranks_of_process() > 1) {
      EXPECT_EQ(released, world_size() - 1);
    }
  }
}

TEST_P(StrategySuite, AbortWithTrafficInFlightEndsCleanly) {
  if (world_size() == 1) return;
  const absl::Status status = Run([&](Communicator& world, Device& device) -> absl::Status {
    ToyModel model(AwkwardUnits());
    ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model));
    ZEROTH_RETURN_IF_ERROR(ToyTrain(*sharding, world.rank(), 1));
    ToyStep step;
    step.gradient = PatternGradient(world.rank());
    // Rank 0 stops with prefetches and reductions still enqueued when its sharding is destroyed.
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
              const absl::Status visited =
                  sharding->VisitFull([](const Parameter&, int64_t, absl::Span<const float>) {
                    return absl::AbortedError("seen enough");
                  });
              ZEROTH_TOY_EXPECT(absl::IsAborted(visited));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
              return CheckAtRest(*sharding);
            }),
            absl::OkStatus());
}

}  // namespace
}  // namespace zeroth
