// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// With a deterministic batch, runs at every world size and under every strategy give the same bits.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/nn/activation_checkpointing.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/strategies/shard_layout.h"
#include "zeroth/tests/parity/comparison.h"
#include "zeroth/tests/parity/reference_run.h"

namespace zeroth {
namespace {

constexpr int64_t kBatch = 8;  // micro-batches, of one row each: the reference's rows
constexpr int64_t kSteps = 4;

RunSetup Deterministic(RunSetup setup, int64_t micro_batches = kBatch) {
  setup.deterministic_batch = micro_batches;
  setup.rows_per_rank = 1;
  setup.steps = kSteps;
  return setup;
}

RunSetup Alone(const std::string& model, const MixedPrecision& precision = {}) {
  RunSetup setup;
  setup.model = model;
  setup.strategy = "full_shard";
  setup.device = TestDevice();
  setup.precision = precision;
  return setup;
}

MixedPrecision Types(DType param, DType reduce, DType master = DType::kFloat32) {
  MixedPrecision precision;
  precision.param_dtype = param;
  precision.reduce_dtype = reduce;
  precision.master_dtype = master;
  return precision;
}

class WorldSizeTest : public testing::TestWithParam<MixedPrecision> {};

TEST_P(WorldSizeTest, NoBitDependsOnRanksOrStrategies) {
  for (const char* model : {"gpt2_tiny", "llama_tiny"}) {
    const TrainingRecord& alone = Record(Deterministic(Alone(model, GetParam())));
    for (const int world_size : WorldSizes()) {
      for (const RunSetup& setup : SetupsFor(model, world_size, GetParam())) {
        SCOPED_TRACE(Deterministic(setup).ToString());
        ExpectSameBits(alone, Record(Deterministic(setup)));
      }
    }
  }
}

// 24 is not a power of two: three sums over 8 ranks, or a tree of 24 leaves on one.
TEST_P(WorldSizeTest, AlsoIfTheBatchIsNotAPowerOfTwo) {
  const TrainingRecord& alone = Record(Deterministic(Alone("gpt2_tiny", GetParam()), 24));
  for (const int world_size : WorldSizes()) {
    for (const RunSetup& setup : SetupsFor("gpt2_tiny", world_size, GetParam())) {
      SCOPED_TRACE(Deterministic(setup, 24).ToString());
      ExpectSameBits(alone, Record(Deterministic(setup, 24)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, WorldSizeTest,
                         testing::Values(MixedPrecision(), Types(DType::kBFloat16, DType::kFloat32),
                                         Types(DType::kBFloat16, DType::kBFloat16),
                                         Types(DType::kFloat16, DType::kFloat16)),
                         [](const testing::TestParamInfo<MixedPrecision>& setup) {
                           return std::string(DTypeName(setup.param.param_dtype)) + "_reduced_in_" +
                                  std::string(DTypeName(setup.param.reduce_dtype));
                         });

TEST(ElasticTest, MeetsTheReference) {
  for (const char* model : {"gpt2_tiny", "llama_tiny"}) {
    RunSetup setup = Deterministic(Alone(model));
    setup.world_size = 2;
    setup.steps = 0;
    const absl::StatusOr<TrainingRecord> reference = LoadReference(model);
    ASSERT_TRUE(reference.ok()) << reference.status();
    const TrainingRecord& record = Record(setup);
    ASSERT_EQ(record.losses.size(), reference->losses.size());
    for (size_t step = 0; step < record.losses.size(); ++step) {
      EXPECT_LE(Relative(record.losses[step], reference->losses[step]), kLossTolerance) << step;
    }
    ExpectClose(record.first_gradients, reference->first_gradients, kGradientTolerance, "gradient");
    ExpectFinalWeightsClose(model, record.final_weights, reference->final_weights);
  }
}

// A machine's cores are shared among its ranks, so that threads change with the world size. Large
// enough that kernels divide their work, and oneDNN the reduction dimension of GEMMs.
TEST(ElasticTest, ThreadsDoNotChangeResults) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer cannot see the synchronisation inside GCC's OpenMP runtime";
#endif
  for (const char* model : {"gpt2_tiny", "llama_tiny"}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      RunSetup alone = Deterministic(Alone(model, Types(dtype, dtype)), 2);
      alone.rows_per_rank = 64;
      alone.steps = 2;
      alone.bits_of_any_team = true;
      for (const auto& [world_size, threads] :
           {std::pair(1, 3), std::pair(1, 8), std::pair(2, 2)}) {
        RunSetup setup = alone;
        setup.world_size = world_size;
        setup.threads = threads;
        SCOPED_TRACE(setup.ToString());
        ExpectSameBits(Record(alone), Record(setup));
      }
    }
  }
}

// `setup` at other world sizes, under strategies that differ in what they shard.
void ExpectSameEverywhere(RunSetup setup) {
  setup = Deterministic(setup);
  const TrainingRecord& alone = Record(setup);
  for (const int world_size : WorldSizes()) {
    for (const char* strategy : {"no_shard", "shard_optimizer", "full_shard", "hybrid_shard"}) {
      RunSetup other = setup;
      other.strategy = strategy;
      other.world_size = world_size;
      if (other.strategy == "hybrid_shard") other.shard_size = world_size > 1 ? world_size / 2 : 1;
      SCOPED_TRACE(other.ToString());
      ExpectSameBits(alone, Record(other));
    }
  }
}

TEST(ElasticTest, BigParametersAloneAreSharded) {
  RunSetup setup = Alone("gpt2_tiny", Types(DType::kBFloat16, DType::kBFloat16));
  setup.min_shard_numel = 200;
  ExpectSameEverywhere(setup);
}

TEST(ElasticTest, RowsLayout) {
  RunSetup setup = Alone("gpt2_tiny", Types(DType::kBFloat16, DType::kBFloat16));
  setup.layout = LayoutKind::kRows;
  ExpectSameEverywhere(setup);
}

TEST(ElasticTest, OffloadedState) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    RunSetup setup = Alone("llama_tiny", Types(dtype, dtype));
    const TrainingRecord& in_memory = Record(Deterministic(setup));
    setup.offload.parameters = true;
    setup.offload.gradients = true;
    setup.offload.optimizer = true;
    ExpectSameBits(in_memory, Record(Deterministic(setup)));
    ExpectSameEverywhere(setup);
  }
}

// Stochastic rounding draws by element and step, not by rank.
TEST(ElasticTest, LowPrecisionOptimizer) {
  RunSetup setup = Alone("gpt2_tiny", Types(DType::kBFloat16, DType::kBFloat16, DType::kBFloat16));
  setup.state_dtype = DType::kUInt8;
  ExpectSameEverywhere(setup);
}

TEST(ElasticTest, ScaledLossAndFp32Norms) {
  RunSetup setup = Alone("gpt2_tiny", Types(DType::kFloat16, DType::kFloat16));
  setup.loss_scale = 1 << 18;  // the first steps overflow
  setup.fp32_norms = true;
  ExpectSameEverywhere(setup);
}

TEST(ElasticTest, RecomputedAndKept) {
  RunSetup setup = Alone("llama_tiny");
  setup.activation_checkpointing = ActivationCheckpointing::kBlock;
  setup.reshard_after_forward = false;
  setup.min_wrap_numel = 3000;
  ExpectSameEverywhere(setup);
}

}  // namespace
}  // namespace zeroth
