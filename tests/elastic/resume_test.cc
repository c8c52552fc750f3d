// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// With a deterministic batch, ranks and strategies may change from checkpoint to checkpoint, and
// the run has the bits of a single rank's.

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/tests/cli/trainer_process.h"

namespace {

using namespace zeroth::testing;  // NOLINT: all of it is for these tests

constexpr size_t kSteps = 12;

// Shuffled data, a schedule, evaluations; threads as the trainer shares them among ranks.
Flags Training(const fs::path& out, const Flags& more) {
  return With({"--init_from=tests/testdata/gpt2_tiny", "--data=tests/testdata/gpt2_tiny/tokens.npy",
               "--seq_len=32", "--lr=1e-2", "--warmup_steps=3", "--batch_size=1",
               "--sample_tokens=0", "--steps=12", "--eval_every=4", "--eval_batches=2",
               "--eval_data=tests/testdata/gpt2_tiny/tokens.npy", "--checkpoint_every=4",
               "--keep_last=0", "--out=" + out.string()},
              more);
}

// The lines of the last `count` steps, without times.
std::vector<nlohmann::json> LastSteps(const fs::path& out, size_t count) {
  std::vector<nlohmann::json> steps;
  for (const nlohmann::json& line : Metrics(out)) {
    if (!line.contains("step")) continue;
    nlohmann::json facts;
    for (const char* key : {"step", "loss", "grad_norm", "lr", "skipped_steps", "loss_scale",
                            "eval_loss", "ema_eval_loss"}) {
      if (line.contains(key)) facts[key] = line[key];
    }
    steps.push_back(std::move(facts));
  }
  if (steps.size() > count) steps.erase(steps.begin(), steps.end() - static_cast<long>(count));
  return steps;
}

Outcome MustRun(const Flags& flags) {
  const Outcome run = RunTrainer(flags);
  EXPECT_EQ(run.exit_code, 0) << run.output;
  return run;
}

std::string Resume(const fs::path& out, int step) {
  return "--resume=" + (out / ("step-0000000" + std::to_string(step))).string();
}

// Four steps at 4 ranks, four at 2, four at 8, under three strategies; returns the last resume's
// output.
std::string ChangeRanks(const fs::path& out, const Flags& flags) {
  MustRun(Training(out / "4", With(flags, {"--world_size=4"})));
  MustRun(Training(out / "2", With(flags, {"--world_size=2", "--strategy=shard_grad_op",
                                           Resume(out / "4", 4)})));
  return MustRun(Training(out / "8", With(flags, {"--world_size=8", "--strategy=hybrid_shard",
                                                  "--shard_size=4", Resume(out / "2", 8)})))
      .output;
}

TEST(ElasticResumeTest, RanksAndStrategiesMayChangeAtEveryCheckpoint) {
  const std::vector<std::pair<std::string, Flags>> variants = {
      {"fp32", {"--deterministic_batch=8"}},
      {"muon",
       {"--deterministic_batch=8", "--optimizer=muon", "--muon_lr=2e-3", "--muon_split_qkv",
        "--optimizer_state_dtype=bf16"}},
      {"24", {"--deterministic_batch=24", "--ema_decay=0.9"}},
      {"bf16",
       {"--deterministic_batch=8", "--param_dtype=bf16", "--reduce_dtype=bf16",
        "--master_dtype=bf16", "--optimizer_state_dtype=float8_block"}},
      {"fp16",
       {"--deterministic_batch=8", "--param_dtype=fp16", "--reduce_dtype=fp16",
        "--loss_scale_growth_interval=3"}}};
  for (const auto& [name, flags] : variants) {
    SCOPED_TRACE(name);
    const fs::path out = Scratch() / name;
    const Outcome alone =
        MustRun(Training(out / "alone", With(flags, {"--world_size=1", "--strategy=no_shard"})));
    EXPECT_NE(alone.output.find("micro-batches, "), std::string::npos) << alone.output;
    const std::string said = ChangeRanks(out, flags);
    EXPECT_EQ(LastSteps(out / "4", kSteps), LastSteps(out / "alone", kSteps));
    EXPECT_EQ(LastSteps(out / "2", 8), LastSteps(out / "alone", 8));
    EXPECT_EQ(LastSteps(out / "8", 4), LastSteps(out / "alone", 4));
    for (const char* run : {"4", "2", "8"}) {
      EXPECT_TRUE(Read(out / run / "final/model.safetensors") ==
                  Read(out / "alone/final/model.safetensors"))
          << run << " has other bits";
    }
    EXPECT_EQ(said.find("with other flags"), std::string::npos) << said;
  }
}

// The same chain of runs on the same sequences.
TEST(ElasticResumeTest, WithoutItRanksShow) {
  const fs::path out = Scratch();
  MustRun(Training(out / "alone", {"--world_size=1", "--grad_accum=8"}));
  MustRun(Training(out / "4", {"--world_size=4", "--grad_accum=2"}));
  const std::string said =
      MustRun(Training(out / "2", {"--world_size=2", "--grad_accum=4", Resume(out / "4", 8)}))
          .output;
  EXPECT_NE(LastSteps(out / "2", 4), LastSteps(out / "alone", 4));
  EXPECT_FALSE(Read(out / "2/final/model.safetensors") ==
               Read(out / "alone/final/model.safetensors"));
  EXPECT_NE(said.find("--world_size is 2, was 4"), std::string::npos) << said;
}

TEST(ElasticResumeTest, WhatCannotBeIsSaid) {
  const auto expect_error = [](const Flags& flags, const std::string& words) {
    const Outcome run = RunTrainer(Training(Scratch() / "refused", flags));
    EXPECT_EQ(run.exit_code, 1) << run.output;
    EXPECT_NE(run.errors.find(words), std::string::npos) << words << " in " << run.errors;
  };
  expect_error({"--deterministic_batch=24", "--world_size=3"}, "divides it: 1, 2, 4, 8");
  expect_error({"--deterministic_batch=8", "--world_size=16"}, "divides it: 1, 2, 4, 8");
  expect_error({"--deterministic_batch=8", "--world_size=4", "--grad_accum=4"},
               "leave --grad_accum out");
  expect_error({"--deterministic_batch=8", "--quantized_gradients"}, "int8 scale");

  const fs::path out = Scratch() / "out";
  MustRun(Training(out, {"--deterministic_batch=8", "--world_size=2"}));
  const std::string other =
      MustRun(Training(Scratch() / "other",
                       {"--deterministic_batch=4", "--world_size=2", Resume(out, 8)}))
          .output;
  EXPECT_NE(other.find("--deterministic_batch is 4, was 8"), std::string::npos) << other;
}

}  // namespace
