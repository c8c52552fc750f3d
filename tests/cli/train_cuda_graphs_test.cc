// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer with --cuda_graphs: what it writes and what it refuses.

#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/nccl/testing/nccl_gpus.h"
#include "zeroth/tests/cli/trainer_process.h"

namespace zeroth::testing {
namespace {

Flags OnCuda(const fs::path& out, const Flags& more) {
  return With(Reference(out),
              With({"--device=cuda", "--batch_size=2", "--steps=5", "--lr_schedule=cosine",
                    "--eval_data=tests/testdata/gpt2_tiny/tokens.npy", "--eval_every=2",
                    "--eval_batches=1", "--param_dtype=bf16"},
                   more));
}

TEST(TrainCudaGraphsTest, WritesTheBitsOfARunWithoutGraphs) {
  ZEROTH_SKIP_BEYOND_NCCL_RANKS(1);
  const fs::path with = Scratch() / "with";
  const fs::path without = Scratch() / "without";
  const Outcome recorded = RunTrainer(OnCuda(with, {"--world_size=1", "--cuda_graphs"}));
  ASSERT_EQ(recorded.exit_code, 0) << recorded.output;
  ASSERT_EQ(RunTrainer(OnCuda(without, {"--world_size=1"})).exit_code, 0);
  const fs::path weights = fs::path("final") / "model.safetensors";
  EXPECT_GT(Read(with / weights).size(), 1000u);
  EXPECT_TRUE(Read(with / weights) == Read(without / weights));
  const auto lines = Metrics(with);
  const auto expected = Metrics(without);
  ASSERT_EQ(lines.size(), expected.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const char* const key : {"loss", "grad_norm", "lr", "eval_loss"}) {
      ASSERT_EQ(lines[i].contains(key), expected[i].contains(key)) << key;
      if (lines[i].contains(key)) {
        EXPECT_EQ(lines[i][key], expected[i][key]) << i << ": " << key;
      }
    }
  }
}

TEST(TrainCudaGraphsTest, RanksThatShareAProcessAreRefused) {
  ZEROTH_SKIP_BEYOND_NCCL_RANKS(1);
  const Outcome run = RunTrainer(OnCuda(Scratch() / "out", {"--world_size=2", "--cuda_graphs"}));
  EXPECT_EQ(run.exit_code, 1);
  for (const char* const part : {"--cuda_graphs needs", "with --comm=local, --world_size=1",
                                 "the collectives of local world", "need the host"}) {
    EXPECT_TRUE(absl::StrContains(run.errors, part)) << run.errors;
  }
}

}  // namespace
}  // namespace zeroth::testing
