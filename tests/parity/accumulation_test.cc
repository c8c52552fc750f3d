// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares steps of several micro-batches with the same reference, which computes its batch at
// once.

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/tests/parity/comparison.h"
#include "zeroth/tests/parity/reference_run.h"

namespace zeroth {
namespace {

std::vector<RunSetup> Setups(const std::string& model, int world_size, int64_t micro_batches,
                             bool sync_every, const MixedPrecision& precision = {}) {
  std::vector<RunSetup> setups = SetupsFor(model, world_size, precision);
  for (RunSetup& setup : setups) {
    setup.micro_batches = micro_batches;
    setup.sync_every_micro_batch = sync_every;
  }
  return setups;
}

TEST(AccumulationTest, EveryStrategyMeetsTheReference) {
  for (const bool sync_every : {true, false}) {
    for (const RunSetup& setup : Setups("gpt2_tiny", 2, 4, sync_every)) ExpectMeetsReference(setup);
    for (const RunSetup& setup : Setups("llama_tiny", 4, 2, sync_every)) {
      ExpectMeetsReference(setup);
    }
    for (const RunSetup& setup : Setups("gpt2_tiny", 1, 8, sync_every)) ExpectMeetsReference(setup);
  }
}

// If gradients are reduced once, the order of summation is the same however state is sharded. If
// they are reduced every time, strategies that shard gradients still agree.
TEST(AccumulationTest, StrategiesGiveTheSameBits) {
  MixedPrecision bf16;
  bf16.param_dtype = DType::kBFloat16;
  for (const MixedPrecision& precision : {MixedPrecision(), bf16}) {
    const std::vector<RunSetup> last = Setups("gpt2_tiny", 4, 2, false, precision);
    for (const RunSetup& setup : last) {
      SCOPED_TRACE(setup.ToString());
      ExpectSameBits(Record(last.front()), Record(setup));
    }
    const RunSetup* first = nullptr;
    const std::vector<RunSetup> every = Setups("gpt2_tiny", 4, 2, true, precision);
    for (const RunSetup& setup : every) {
      const bool adds_up_first = setup.strategy == "no_shard" ||
                                 setup.strategy == "shard_optimizer" || setup.shard_size == 1;
      if (adds_up_first) continue;
      SCOPED_TRACE(setup.ToString());
      if (first == nullptr) first = &setup;
      // Shards of two groups add their micro-batches before the groups' sums meet.
      const bool same_order = setup.shard_size == 0 || setup.shard_size == 4;
      if (same_order) ExpectSameBits(Record(*first), Record(setup));
      if (!setup.shard_optimizer_over_world) continue;
      RunSetup in_groups = setup;
      in_groups.shard_optimizer_over_world = false;
      ExpectSameBits(Record(in_groups), Record(setup));
    }
  }
}

}  // namespace
}  // namespace zeroth
