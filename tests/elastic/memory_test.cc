// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The memory of a deterministic batch, as the allocator counts it.

#include "zeroth/core/device/memory.h"

#include <cmath>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/testing/memory_formula.h"
#include "zeroth/tests/structure/small_gpt2.h"

namespace zeroth::testing {
namespace {

struct MemoryCase {
  std::string strategy;
  int shard_size = 0;
  DType dtype = DType::kFloat32;  // of parameters and reductions
  bool offloads_gradients = false;

  int owners(int world_size) const {
    if (strategy == "no_shard") return 1;
    return shard_size > 0 ? shard_size : world_size;
  }
};

constexpr int kWorld = 2;

// Peak bytes of gradients in a step, the same on all ranks.
int64_t PeakOfGradients(const MemoryCase& test_case, int micro_batches, bool deterministic) {
  TrainerOptions options = OptionsOf(test_case.strategy, test_case.shard_size);
  options.sharding.mixed_precision.param_dtype = test_case.dtype;
  options.sharding.mixed_precision.reduce_dtype = test_case.dtype;
  options.sharding.offload.gradients = test_case.offloads_gradients;
  if (deterministic) options.deterministic_batch = micro_batches * kWorld;
  std::mutex mutex;
  std::set<int64_t> peaks;
  const absl::Status status = RunSmallGpt2(
      kWorld, options, [&](Trainer& trainer, Device& device, int rank) -> absl::Status {
        for (int step = 0; step < 2; ++step) {
          const std::vector<Batch> batches = MicroBatches(rank, step, micro_batches);
          ZEROTH_RETURN_IF_ERROR(trainer.Step(batches, 1e-3).status());
        }
        std::lock_guard<std::mutex> lock(mutex);
        peaks.insert(device.allocator().stats()[MemoryCategory::kGradients].peak_bytes);
        return absl::OkStatus();
      });
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(peaks.size(), 1u);
  return peaks.empty() ? 0 : *peaks.begin();
}

class DeterministicMemoryTest : public ::testing::TestWithParam<MemoryCase> {};

// Besides the shard, which always exists, and the buffers that units share in turn.
TEST_P(DeterministicMemoryTest, SumsThatWaitAreLogarithmicallyMany) {
  const MemoryCase& test_case = GetParam();
  const int64_t shard = kNumel / test_case.owners(kWorld) * 4;
  // A second micro-batch needs memory that only strategies with shards have for the first.
  const int64_t two = PeakOfGradients(test_case, 2, true);
  for (const int micro_batches : {4, 8, 16}) {
    const int extra = static_cast<int>(std::log2(micro_batches)) - 1;
    EXPECT_EQ(PeakOfGradients(test_case, micro_batches, true) - two, extra * shard)
        << micro_batches;
  }
}

TEST_P(DeterministicMemoryTest, OneMicroBatchOfARankCostsNothing) {
  EXPECT_EQ(PeakOfGradients(GetParam(), 1, true), PeakOfGradients(GetParam(), 1, false));
}

TEST_P(DeterministicMemoryTest, TheFormulaKnowsIt) {
  const MemoryCase& test_case = GetParam();
  ModelNumel numel;
  numel.total = kNumel;
  numel.root = kRootNumel;
  numel.block = kBlockNumel;
  for (const int micro_batches : {1, 2, 3, 7, 8}) {
    MemoryFormulaOptions options;
    options.strategy = test_case.strategy;
    options.world_size = kWorld;
    options.shard_size = test_case.shard_size;
    options.precision.param_dtype = test_case.dtype;
    options.precision.reduce_dtype = test_case.dtype;
    options.offload.gradients = test_case.offloads_gradients;
    options.micro_batches = micro_batches;
    options.sums_in_tree = true;
    const absl::StatusOr<StateBytes> predicted = PredictStateBytes(numel, options);
    ASSERT_TRUE(predicted.ok()) << predicted.status();
    EXPECT_EQ(static_cast<double>(PeakOfGradients(test_case, micro_batches, true)),
              predicted->gradients)
        << micro_batches;
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, DeterministicMemoryTest,
                         ::testing::Values(MemoryCase{"no_shard"}, MemoryCase{"shard_optimizer"},
                                           MemoryCase{"full_shard"}, MemoryCase{"hybrid_shard", 1},
                                           MemoryCase{"full_shard", 0, DType::kBFloat16},
                                           MemoryCase{"no_shard", 0, DType::kBFloat16},
                                           MemoryCase{"full_shard", 0, DType::kFloat32, true},
                                           MemoryCase{"shard_grad_op", 0, DType::kBFloat16, true}),
                         [](const ::testing::TestParamInfo<MemoryCase>& test_case) {
                           return test_case.param.strategy + "_" +
                                  std::string(DTypeName(test_case.param.dtype)) +
                                  (test_case.param.offloads_gradients ? "_offload" : "");
                         });

}  // namespace
}  // namespace zeroth::testing
