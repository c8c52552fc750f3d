// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The strategy suite: rounding of gradient sums. They are scaled, and accumulated over
// micro-batches, in fp32, and rounded once, at the end.

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/quantized_collectives.h"
#include "zeroth/strategies/testing/strategy_suite.h"
#include "zeroth/strategies/testing/toy_training.h"

namespace zeroth {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
// Not powers of two, so that scaling a mean in any other order rounds differently.
constexpr double kFactors[] = {3, 0.7};

// Half of the relative distance between neighbouring values.
double RoundoffOf(DType dtype) {
  return dtype == DType::kFloat32 ? 0x1p-24 : dtype == DType::kBFloat16 ? 0x1p-8 : 0x1p-11;
}

// Draws gradients that are representable in `dtype`, and positive, so that nothing cancels.
ToyGradient DrawnGradient(DType dtype, int rank, int micro_batch) {
  return [=](const Parameter& parameter, int64_t element, float) {
    const CounterRng rng(static_cast<uint64_t>(100 * micro_batch + rank), parameter.name());
    return RoundTo(dtype, 0.5f + rng.Uniform(static_cast<uint64_t>(element)));
  };
}

// Runs a step up to its gradients; the caller ends it.
absl::Status Accumulate(Sharding& sharding, int micro_batches, bool sync_each,
                        const std::function<ToyGradient(int micro_batch)>& gradient) {
  Scheduler& scheduler = sharding.scheduler();
  for (int index = 0; index < micro_batches; ++index) {
    const bool last = index + 1 == micro_batches;
    scheduler.SetRequiresGradientSync(sync_each || last);
    scheduler.SetIsLastBackward(last);
    ToyStep step;
    step.gradient = gradient(index);
    ZEROTH_RETURN_IF_ERROR(ToyForward(sharding, step));
    ZEROTH_RETURN_IF_ERROR(ToyBackward(sharding, step));
    ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
  }
  return absl::OkStatus();
}

// This rank's shards of all gradients.
absl::StatusOr<std::vector<float>> OwnGradients(const Sharding& sharding) {
  std::vector<float> all;
  for (const Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values,
                              ReadGradient(*unit, unit->PieceOf(i)));
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

// Returns the expected value for one micro-batch, computed on the host: the tree's sum, its mean,
// scaled and rounded.
ToyFormula ScaledOnHost(DType dtype, int world_size, double factor) {
  return [=](const Parameter& parameter, int64_t element) {
    std::vector<float> contributions;
    for (int rank = 0; rank < world_size; ++rank) {
      contributions.push_back(DrawnGradient(dtype, rank, 0)(parameter, element, 0));
    }
    const float mean =
        TreeSum(contributions, 0, contributions.size()) * (1.0f / static_cast<float>(world_size));
    return RoundTo(dtype, mean * static_cast<float>(world_size / factor));
  };
}

// The same for several micro-batches, in float64.
ToyFormula ScaledInFloat64(DType dtype, int world_size, double factor, int micro_batches) {
  return [=](const Parameter& parameter, int64_t element) {
    double sum = 0;
    for (int index = 0; index < micro_batches; ++index) {
      for (int rank = 0; rank < world_size; ++rank) {
        sum += double{DrawnGradient(dtype, rank, index)(parameter, element, 0)};
      }
    }
    return static_cast<float>(sum / factor);
  };
}

TEST_P(StrategySuite, ADivideFactorIsAppliedBeforeTheOneRounding) {
  // A group of three, for example, divides by a factor, and 1/3 is not a float.
  const bool exact = (world_size() & (world_size() - 1)) == 0 || GetParam().shard_size == 0;
  for (const DType dtype : kTypes) {
    for (const double factor : kFactors) {
      for (const bool offloads : {false, true}) {
        ShardingOptions options = Options();
        options.mixed_precision.reduce_dtype = dtype;
        options.strategy_options.gradient_divide_factor = factor;
        options.min_shard_numel = offloads ? 0 : 20;
        options.offload.gradients = offloads;
        if (!Supports(options) || (offloads && !SupportsOffload())) continue;
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " / " << factor << " " << offloads);
        EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
                    ToyModel model(AwkwardUnits());
                    ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
                    ZEROTH_RETURN_IF_ERROR(Accumulate(*sharding, 1, true, [&](int index) {
                      return DrawnGradient(dtype, world.rank(), index);
                    }));
                    // Two roundings would be beyond half a place of the last digit.
                    ZEROTH_RETURN_IF_ERROR(
                        CheckGradients(*sharding, ScaledInFloat64(dtype, world.size(), factor, 1),
                                       RoundoffOf(dtype) + 4e-7));
                    ZEROTH_RETURN_IF_ERROR(
                        CheckGradients(*sharding, ScaledOnHost(dtype, world.size(), factor),
                                       exact ? 0 : 2 * RoundoffOf(dtype) + 4e-7));
                    return sharding->scheduler().EndStep();
                  }),
                  absl::OkStatus());
      }
    }
  }
}

TEST_P(StrategySuite, ADivideFactorOfSeveralMicroBatchesIsAppliedInFloat) {
  for (const DType dtype : kTypes) {
    for (const bool sync_each : {true, false}) {
      for (const int64_t min_shard_numel : {0, 20}) {
        ShardingOptions options = Options();
        options.mixed_precision.reduce_dtype = dtype;
        options.strategy_options.gradient_divide_factor = 0.7;
        options.min_shard_numel = min_shard_numel;
        if (!Supports(options)) continue;
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " " << sync_each);
        EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
                    ToyModel model(AwkwardUnits());
                    ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
                    ZEROTH_RETURN_IF_ERROR(Accumulate(*sharding, 3, sync_each, [&](int index) {
                      return DrawnGradient(dtype, world.rank(), index);
                    }));
                    ZEROTH_RETURN_IF_ERROR(CheckGradients(
                        *sharding, ScaledInFloat64(dtype, world.size(), 0.7, 3), 1e-6));
                    return sharding->scheduler().EndStep();
                  }),
                  absl::OkStatus());
      }
    }
  }
}

// Only traffic is int8: dequantised gradients are scaled in fp32, and rounded once.
TEST_P(StrategySuite, ADivideFactorOfQuantizedGradientsIsAppliedBeforeTheOneRounding) {
  if (world_size() == 1 || !SupportsUnitCollectives()) return;
  EXPECT_EQ(
      Run([&](Communicator& world, Device& device) -> absl::Status {
        std::vector<float> gradients[2];
        for (const bool scales : {false, true}) {
          ToyModel model(AwkwardUnits());
          ShardingOptions options = Options();
          options.mixed_precision.reduce_dtype = DType::kBFloat16;
          options.mixed_precision.keep_low_precision_grads = scales;
          options.strategy_options.gradient_divide_factor = scales ? 3 : 0;
          ZEROTH_ASSIGN_OR_RETURN(options.collectives, QuantizedCollectives());
          const auto sharding = Make(world, device, model, options);
          // Replicated gradients are neither kept in fp32 nor quantised.
          if (!scales && !sharding.ok()) return absl::OkStatus();
          ZEROTH_RETURN_IF_ERROR(sharding.status());
          ZEROTH_RETURN_IF_ERROR(Accumulate(**sharding, 1, true, [&](int index) {
            return DrawnGradient(DType::kBFloat16, world.rank(), index);
          }));
          ZEROTH_ASSIGN_OR_RETURN(gradients[scales ? 1 : 0], OwnGradients(**sharding));
          ZEROTH_RETURN_IF_ERROR((*sharding)->scheduler().EndStep());
        }
        const float scale = static_cast<float>(world.size() / 3.0);
        for (size_t i = 0; i < gradients[0].size(); ++i) {
          ZEROTH_TOY_EXPECT(gradients[1][i] == RoundTo(DType::kBFloat16, gradients[0][i] * scale));
        }
        return absl::OkStatus();
      }),
      absl::OkStatus());
}

constexpr int kManyMicroBatches = 64;

// 1, then contributions that are each too small to change a 16-bit sum of about 1.
ToyGradient OneAndManySmallOnes(int micro_batch) {
  return [=](const Parameter&, int64_t element, float) {
    return micro_batch == 0 ? 1.0f : static_cast<float>(1 + element % 2) * 0x1p-12f;
  };
}

ToyFormula SumOfOneAndManySmallOnes() {
  return [](const Parameter&, int64_t element) {
    double sum = 1;
    for (int i = 1; i < kManyMicroBatches; ++i) {
      sum += static_cast<double>(1 + element % 2) * 0x1p-12;
    }
    return static_cast<float>(sum);
  };
}

TEST_P(StrategySuite, SmallContributionsOfManyMicroBatchesAreNotLost) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const bool sync_each : {true, false}) {
      for (const bool offloads : {false, true}) {
        if (offloads && !SupportsOffload()) continue;
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " " << sync_each << " " << offloads);
        ShardingOptions options = Options();
        options.mixed_precision = {dtype, dtype};
        options.min_shard_numel = offloads ? 0 : 20;
        options.offload.gradients = offloads;
        EXPECT_EQ(
            Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
              for (int step = 0; step < 2; ++step) {
                ZEROTH_RETURN_IF_ERROR(
                    Accumulate(*sharding, kManyMicroBatches, sync_each, OneAndManySmallOnes));
                ZEROTH_RETURN_IF_ERROR(CheckGradients(*sharding, SumOfOneAndManySmallOnes(), 1e-6));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
                ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
                // A single micro-batch still has the type that it is reduced in.
                ZEROTH_RETURN_IF_ERROR(Accumulate(*sharding, 1, true, OneAndManySmallOnes));
                for (const Unit* unit : sharding->units()) {
                  ZEROTH_TOY_EXPECT(unit->GradientShardState(0).dtype() == dtype);
                }
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
              }
              return absl::OkStatus();
            }),
            absl::OkStatus());
      }
    }
  }
}

// On request, full gradients accumulate in half the memory.
TEST_P(StrategySuite, SumsOfMicroBatchesAreLowPrecisionOnRequest) {
  ShardingOptions options = Options();
  options.mixed_precision = {DType::kBFloat16, DType::kBFloat16};
  options.mixed_precision.grad_accum_dtype = DType::kBFloat16;
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, Make(world, device, model, options));
              ZEROTH_RETURN_IF_ERROR(Accumulate(*sharding, kManyMicroBatches, /*sync_each=*/false,
                                                OneAndManySmallOnes));
              ZEROTH_RETURN_IF_ERROR(CheckGradients(
                  *sharding, [](const Parameter&, int64_t) { return 1.0f; }, 1e-6));
              for (const Unit* unit : sharding->units()) {
                ZEROTH_TOY_EXPECT(unit->GradientShardState(0).dtype() == DType::kBFloat16);
              }
              return sharding->scheduler().EndStep();
            }),
            absl::OkStatus());
  options.mixed_precision.grad_accum_dtype = DType::kFloat16;
  EXPECT_EQ(Run([&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(AwkwardUnits());
              const absl::Status status = Make(world, device, model, options).status();
              ZEROTH_TOY_EXPECT(absl::IsInvalidArgument(status));
              ZEROTH_TOY_EXPECT(absl::StrContains(status.message(), "grad_accum_dtype is fp16"));
              return absl::OkStatus();
            }),
            absl::OkStatus());
}

}  // namespace
}  // namespace zeroth
