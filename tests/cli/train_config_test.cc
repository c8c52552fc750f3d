// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Configuration files: a run's config file reproduces the run.

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/tests/cli/trainer_process.h"

namespace {

using namespace zeroth::testing;  // NOLINT: all of it is for these tests
using ::testing::HasSubstr;

// Losses and norms, step by step.
std::vector<nlohmann::json> Steps(const fs::path& out) {
  std::vector<nlohmann::json> steps;
  for (const nlohmann::json& line : Metrics(out)) {
    if (line.contains("loss")) steps.push_back({line["step"], line["loss"], line["grad_norm"]});
  }
  return steps;
}

void ExpectSameRun(const fs::path& one, const fs::path& other) {
  ASSERT_FALSE(Steps(one).empty());
  EXPECT_EQ(Steps(one), Steps(other));
  const std::string model = Read(one / "final/model.safetensors");
  ASSERT_FALSE(model.empty());
  EXPECT_TRUE(model == Read(other / "final/model.safetensors")) << "other bits";
}

TEST(TrainConfigTest, WhatARunWritesMakesItAgain) {
  const std::vector<Flags> variants = {
      {},
      {"--global_batch_size=16", "--grad_accum=2", "--lr=3.3e-3", "--seed=18446744073709551615",
       "--lr_schedule=linear", "--skip_loss_zscore=4", "--shuffle=true"},
      {"--deterministic_batch=4", "--batch_size=2", "--world_size=2", "--strategy=shard_grad_op",
       "--param_dtype=bf16", "--reduce_dtype=bf16", "--master_dtype=bf16",
       "--optimizer_state_dtype=float8_block", "--lr_schedule=cosine", "--min_lr=0.0001"},
      {"--lora_rank=2", "--lora_alpha=7", "--lora_targets=attn.c_attn,mlp.c_fc",
       "--lora_export=both", "--reshard_after_forward=2", "--world_size=4", "--ema_decay=0.9"},
  };
  for (size_t i = 0; i < variants.size(); ++i) {
    SCOPED_TRACE(i);
    const fs::path out = Scratch() / ("out" + std::to_string(i));
    const fs::path again = Scratch() / ("again" + std::to_string(i));
    const Outcome run = RunTrainer(With(With(Reference(out), {"--steps=6"}), variants[i]));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const Outcome rerun =
        RunTrainer({"--config=" + (out / "config.toml").string(), "--out=" + again.string()});
    ASSERT_EQ(rerun.exit_code, 0) << rerun.output;
    ExpectSameRun(out, again);
    // The file has all chosen values, so the second run had nothing left to choose.
    std::string config = Read(out / "config.toml");
    const size_t place = config.find(out.string());
    ASSERT_NE(place, std::string::npos);
    EXPECT_EQ(config.replace(place, out.string().size(), again.string()),
              Read(again / "config.toml"));
    EXPECT_THAT(config, HasSubstr("\nworld_size = " + std::string(i == 3 ? "4" : "2") + "\n"));
    EXPECT_THAT(config, HasSubstr("\ncomm = \"local\"\n"));
  }
}

TEST(TrainConfigTest, AFileStandsForFlagsWhichOverrideIt) {
  const fs::path out = Scratch() / "out";
  const Flags flags = {"--steps=4", "--lr=0.01", "--prompt=a \"b\""};
  ASSERT_EQ(RunTrainer(With(Reference(out), flags)).exit_code, 0);
  // In the working directory of the command.
  std::string config = "steps = 2\nlr = 1e-2\nprompt = 'a \"b\"'\n";
  for (const std::string& flag : Reference(Scratch() / "other")) {
    const size_t equals = flag.find('=');
    const std::string name = flag.substr(2, equals - 2), value = flag.substr(equals + 1);
    if (name == "steps" || name == "lr") continue;
    const bool is_number = value.find_first_not_of("0123456789.e-") == std::string::npos;
    const std::string path = fs::exists(value) ? fs::absolute(value).string() : value;
    const bool is_bool = value == "true" || value == "false";
    config += name + " = " + (is_number || is_bool ? value : "\"" + path + "\"") + "\n";
  }
  Write(Scratch() / "run.toml", config);
  const Outcome run = RunTrainer({"--config=run.toml", "--steps=4"}, Scratch().string());
  ASSERT_EQ(run.exit_code, 0) << run.output << config;
  ExpectSameRun(out, Scratch() / "other");
}

TEST(TrainConfigTest, WhatIsWrongInAFileIsSaidWithItsLine) {
  const fs::path file = Scratch() / "run.toml";
  Write(file, "data = \"x\"\n\nstps = 4\nlr = \"much\"\n");
  const Outcome run = RunTrainer({"--config=" + file.string()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.errors, HasSubstr("run.toml:3: there is no option stps; did you mean --steps?"));
  EXPECT_THAT(run.errors, HasSubstr("run.toml:4: lr is of type string, expected a finite number"));
}

TEST(TrainConfigTest, OldNamesAreRefusedWithTheNewOnes) {
  const Outcome flag = RunTrainer({"--data=x", "--limit_all_gathers=2"});
  EXPECT_EQ(flag.exit_code, 1);
  EXPECT_THAT(flag.errors, HasSubstr("there is no flag --limit_all_gathers; did you mean "
                                     "--gather_buffers"));
  const Outcome word = RunTrainer({"--data=x", "--optimizer_state_dtype=int8"});
  EXPECT_EQ(word.exit_code, 1);
  EXPECT_THAT(word.errors, HasSubstr("--optimizer_state_dtype=int8: expected fp32, bf16 or "
                                     "float8_block; int8 is called float8_block now"));
}

}  // namespace
