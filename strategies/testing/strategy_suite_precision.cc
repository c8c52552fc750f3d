// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The strategy suite: mixed precision. Results are compared with arithmetic on the host to the last
// bit, so strategies also agree with each other.

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/testing/strategy_suite.h"
#include "zeroth/strategies/testing/toy_training.h"

namespace zeroth {
namespace {

const MixedPrecision kPolicies[] = {
    {DType::kBFloat16, DType::kFloat32},
    {DType::kBFloat16, DType::kBFloat16},
    {DType::kFloat32, DType::kBFloat16},
    {DType::kFloat16, DType::kFloat32},
    {DType::kFloat16, DType::kFloat16},
    {DType::kBFloat16, DType::kFloat32, DType::kBFloat16},
    {DType::kBFloat16, DType::kBFloat16, DType::kBFloat16},
};

// A parameter after `steps` steps of mixed-precision training on random gradients, computed rank by
// rank.
ToyFormula TrainedOnHost(const MixedPrecision& precision, int world_size, int steps) {
  return [=](const Parameter& parameter, int64_t element) {
    const bool keeps = parameter.keeps_fp32();
    const DType master_dtype = keeps ? DType::kFloat32 : precision.master_dtype;
    const DType param_dtype = keeps ? DType::kFloat32 : precision.param_dtype;
    float master = RoundTo(master_dtype, ToyValue(parameter, element));
    for (int step = 0; step < steps; ++step) {
      const float computed = RoundTo(param_dtype, master);
      std::vector<float> contributions;
      for (int rank = 0; rank < world_size; ++rank) {
        contributions.push_back(RoundTo(precision.reduce_dtype,
                                        RandomGradient(rank, step)(parameter, element, computed)));
      }
      const float sum = TreeSum(contributions, 0, contributions.size());
      const float mean =
          RoundTo(precision.reduce_dtype, sum * (1.0f / static_cast<float>(world_size)));
      master = RoundTo(master_dtype, master - 0.5f * mean);
    }
    return master;
  };
}

// Some parameters of every unit keep fp32.
void KeepFp32(ToyModel& model) {
  for (size_t unit = 0; unit < AwkwardUnits().size(); ++unit) {
    const size_t parameters = AwkwardUnits()[unit].shapes.size();
    for (size_t i = 0; i < parameters; i += 2) model.parameter(unit, i).set_keeps_fp32(true);
  }
}

// If the number of ranks is not a power of two, each group divides by a factor, and 1/3 is not a
// float.
double MeanTolerance(int world_size) { return (world_size & (world_size - 1)) == 0 ? 0 : 5e-3; }

TEST_P(StrategySuite, ComputesInTheRoundedMastersAndKeepsThem) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              const ToyFormula fine = [](const Parameter& parameter, int64_t element) {
                return ToyValue(parameter, element) / 997.0f;
              };
              ToyModel model(AwkwardUnits());
              KeepFp32(model);
              ShardingOptions options = Options();
              options.mixed_precision.param_dtype = DType::kBFloat16;
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
              ZEROTH_RETURN_IF_ERROR(sharding->Load(ReaderOf(fine)));
              ToyStep step;
              step.gradient = PatternGradient(world.rank());
              step.expected = fine;  // compared after rounding
              ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
              ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
              ZEROTH_RETURN_IF_ERROR(CheckShards(*sharding, fine));
              ZEROTH_RETURN_IF_ERROR(CheckFull(*sharding, fine));
              return CheckAtRest(*sharding);
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, MixedPrecisionRoundsWhereItSaysAndNowhereElse) {
  constexpr int kSteps = 3;
  for (const MixedPrecision& precision : kPolicies) {
    SCOPED_TRACE(testing::Message() << DTypeName(precision.param_dtype) << " parameters, "
                                    << DTypeName(precision.reduce_dtype) << " reductions, "
                                    << DTypeName(precision.master_dtype) << " masters");
    EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
                ToyModel model(AwkwardUnits());
                KeepFp32(model);
                ShardingOptions options = Options();
                options.mixed_precision = precision;
                ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
                ZEROTH_RETURN_IF_ERROR(ToyTrain(*sharding, world.rank(), kSteps));
                return CheckFull(*sharding, TrainedOnHost(precision, world.size(), kSteps),
                                 MeanTolerance(world.size()));
              }),
              absl::OkStatus());
  }
}

// On request the optimizer reads the unrounded fp32 sum.
TEST_P(StrategySuite, GradientsAreKeptInFloatOnRequest) {
  ShardingOptions options = Options();
  options.mixed_precision = {DType::kFloat32, DType::kBFloat16};
  options.mixed_precision.keep_low_precision_grads = false;
  std::atomic<bool> refused{false};
  EXPECT_EQ(
      Run([&](Communicator& world, Device& device) -> absl::Status {
        ToyModel model(AwkwardUnits());
        absl::StatusOr<std::unique_ptr<Sharding>> sharding = Make(world, device, model, options);
        if (!sharding.ok()) {
          ZEROTH_TOY_EXPECT(absl::StrContains(sharding.status().message(), "not sharded"));
          refused = true;
          return absl::OkStatus();
        }
        ZEROTH_TOY_EXPECT(ViewOf(**sharding).owner_count() > 1);
        const ToyGradient fine = [&](const Parameter&, int64_t element, float) {
          return RoundTo(DType::kBFloat16, static_cast<float>(element % 7) +
                                               0.01f * static_cast<float>(world.rank()));
        };
        ToyStep step;
        step.gradient = fine;
        ZEROTH_RETURN_IF_ERROR(ToyForward(**sharding, step));
        ZEROTH_RETURN_IF_ERROR(ToyBackward(**sharding, step));
        ZEROTH_RETURN_IF_ERROR((*sharding)->scheduler().FinishBackward());
        const int size = world.size();
        return CheckGradients(
            **sharding,
            [size](const Parameter&, int64_t element) {
              double mean = 0;
              for (int rank = 0; rank < size; ++rank) {
                mean += double{RoundTo(DType::kBFloat16, static_cast<float>(element % 7) +
                                                             0.01f * static_cast<float>(rank))} /
                        size;
              }
              return static_cast<float>(mean);
            },
            /* a strategy of somebody else may round on its way */
            SupportsUnitCollectives() ? kMeanTolerance : 1.0 / 128);
      }),
      absl::OkStatus());
  const bool replicates =
      GetParam().strategy == "no_shard" ||
      (GetParam().shard_size == 1 && !options.strategy_options.shard_optimizer_over_world);
  EXPECT_EQ(refused.load(), replicates || world_size() == 1);
}

TEST_P(StrategySuite, WholeParametersFollowMixedPrecisionToo) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ShardingOptions options = Options();
              options.min_shard_numel = 20;
              options.mixed_precision = {DType::kBFloat16, DType::kBFloat16};
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
              ZEROTH_RETURN_IF_ERROR(ToyTrain(*sharding, world.rank(), 2));
              return CheckFull(*sharding, TrainedOnHost(options.mixed_precision, world.size(), 2),
                               MeanTolerance(world.size()));
            }),
            absl::OkStatus());
}

TEST_P(StrategySuite, LowPrecisionTakesHalfTheTraffic) {
  std::vector<int64_t> bytes;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    int64_t sent = 0;
    EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
                ToyModel model(UniformUnits(2));
                ShardingOptions options = Options();
                options.mixed_precision = {dtype, dtype};
                ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
                // Across groups sums are sent in fp32, so that they are rounded once.
                const MeshView& mesh = ViewOf(*sharding);
                const auto sent_bytes = [&] {
                  int64_t bytes_of_groups = 0;
                  for (const Communicator* group : std::set<const Communicator*>{
                           &mesh.shard_gather(), &mesh.shard_reduce(), &mesh.data_reduce()}) {
                    for (const CommStats::Counter& counter : group->stats().counters()) {
                      bytes_of_groups += counter.bytes;
                    }
                  }
                  return bytes_of_groups;
                };
                const int64_t before = sent_bytes();  // of loading
                ZEROTH_RETURN_IF_ERROR(ToyTrain(*sharding, world.rank(), 1));
                if (world.rank() == 0) sent = sent_bytes() - before;
                return absl::OkStatus();
              }),
              absl::OkStatus());
    bytes.push_back(sent);
  }
  // Parameters are aligned to 64 bytes in either type, so a few elements of padding differ.
  EXPECT_NEAR(static_cast<double>(bytes[1]), 0.5 * static_cast<double>(bytes[0]),
              0.01 * static_cast<double>(bytes[0]));
}

TEST_P(StrategySuite, RefusesTypesThatItDoesNotKnow) {
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              for (const MixedPrecision& precision :
                   {MixedPrecision{DType::kInt32, DType::kFloat32},
                    MixedPrecision{DType::kFloat32, DType::kInt64},
                    MixedPrecision{DType::kFloat16, DType::kBFloat16},
                    MixedPrecision{DType::kBFloat16, DType::kFloat32, DType::kFloat16},
                    MixedPrecision{DType::kFloat32, DType::kFloat32, DType::kBFloat16},
                    MixedPrecision{DType::kFloat16, DType::kFloat32, DType::kFloat16}}) {
                ShardingOptions options = Options();
                options.mixed_precision = precision;
                const absl::Status status =
                    Sharding::Create(world, device, options, model.Specs()).status();
                ZEROTH_TOY_EXPECT(absl::IsInvalidArgument(status));
                for (const char* part : {"_dtype is ", "expected fp32"}) {
                  ZEROTH_TOY_EXPECT(absl::StrContains(status.message(), part));
                }
              }
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

}  // namespace
}  // namespace zeroth
