// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// With TensorParallelOptions::deterministic, any number of tensor ranks gives the same bits.

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/tests/parity/comparison.h"
#include "zeroth/tests/parity/reference_run.h"

namespace zeroth {
namespace {

RunSetup Undivided(const std::string& model) {
  RunSetup setup;
  setup.model = model;
  setup.device = TestDevice();
  setup.strategy = "no_shard";
  setup.tensor.deterministic = 4;
  setup.bits_of_any_team = true;
  return setup;
}

// An emulated run takes many seconds. In bf16, rows of Gemma 2's vocabulary of 257 and of its
// MLP's pieces of 10 have another alignment at each number of ranks. OLMo 2 also runs with one
// piece for each rank.
std::vector<const char*> Models() {
  if (RunsAreShort()) return {"gemma2_tiny", "olmo2_tiny"};
  return {"gemma2_tiny", "gemma3_tiny", "gpt2_tiny",  "gpt_oss_tiny", "llama_tiny",
          "olmo2_tiny",  "phi3_tiny",   "qwen3_tiny", "qwen3_5_tiny", "qwen3_moe_tiny"};
}

using DeterministicPiecesTest = OnTestDevice;

TEST_F(DeterministicPiecesTest, EveryFamilyHasTheSameBits) {
  MixedPrecision bf16;
  bf16.param_dtype = DType::kBFloat16;
  for (const MixedPrecision& precision : {MixedPrecision(), bf16}) {
    for (const char* model : Models()) {
      RunSetup one = Undivided(model);
      one.precision = precision;
      one.world_size = RunsAreShort() ? 1 : 2;
      one.steps = RunsAreShort() ? 1 : 6;
      RunSetup two = one;
      two.world_size = 2 * one.world_size;
      two.tensor.size = 2;
      two.strategy = "full_shard";
      SCOPED_TRACE(two.ToString());
      ExpectSameBits(Record(one), Record(two));
      // The others have 2 heads of keys.
      if (std::string(model) != "gpt2_tiny" && std::string(model) != "olmo2_tiny") continue;
      RunSetup four = two;
      four.world_size = 4 * one.world_size;
      four.tensor.size = 4;
      SCOPED_TRACE(four.ToString());
      ExpectSameBits(Record(one), Record(four));
    }
  }
}

// Together with a deterministic batch, at any number of ranks.
TEST_F(DeterministicPiecesTest, ADeterministicBatchKeepsThem) {
  RunSetup alone = Undivided("gpt2_tiny");
  alone.steps = RunsAreShort() ? 1 : 4;
  alone.deterministic_batch = 4;
  RunSetup more = alone;
  more.strategy = "full_shard";
  more.world_size = RunsAreShort() ? 4 : 8;
  more.tensor.size = 2;
  ExpectSameBits(Record(alone), Record(more));
  // Moments that are rounded at random, by draws for the elements of the undivided parameters. The
  // second step is the first that reads rounded ones.
  alone.state_dtype = more.state_dtype = DType::kBFloat16;
  alone.steps = more.steps = RunsAreShort() ? 2 : 4;
  ExpectSameBits(Record(alone), Record(more));
}

}  // namespace
}  // namespace zeroth
