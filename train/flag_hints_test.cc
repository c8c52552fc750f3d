// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/flag_hints.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/train/flags.h"

namespace zeroth {
namespace {

using Names = std::vector<std::string>;

// The trainer's flags are there because this is linked.
TEST(FlagHintsTest, TheFlagsAreParsed) {
  char program[] = "train";
  char* arguments[] = {program};
  const auto options = ParseCommandLine(1, arguments, "");
  EXPECT_NE(options.status().message().find("--data is missing"), std::string::npos);
}

TEST(FlagHintsTest, OtherFrameworksNamesAreKnown) {
  EXPECT_EQ(FlagHints("max_steps", {}), Names{"--steps"});
  EXPECT_EQ(FlagHints("learning_rate", {}), Names{"--lr"});
  EXPECT_EQ(FlagHints("per_device_train_batch_size", {}), Names{"--batch_size"});
  // As Megatron-LM and Lightning write them.
  EXPECT_EQ(FlagHints("micro-batch-size", {}), Names{"--batch_size"});
  EXPECT_EQ(FlagHints("bf16", {}), Names{"--param_dtype=bf16 --reduce_dtype=bf16"});
}

TEST(FlagHintsTest, TheNearestNamesAreNamed) {
  const Names known = {"beta1", "beta2", "batch_size", "seq_len", "steps", "strategy"};
  EXPECT_EQ(FlagHints("batchsize", known), Names{"--batch_size"});
  EXPECT_EQ(FlagHints("batch_szie", known), Names{"--batch_size"});
  EXPECT_EQ(FlagHints("seq-len", known), Names{"--seq_len"});
  EXPECT_EQ(FlagHints("step", known), Names{"--steps"});
  EXPECT_EQ(FlagHints("stratgey", known), Names{"--strategy"});
  EXPECT_EQ(FlagHints("beta3", known), (Names{"--beta1", "--beta2"}));
  EXPECT_EQ(FlagHints("no_such_flag", known), Names{});
  EXPECT_EQ(FlagHints("", known), Names{});
}

std::string Check(Names words) {
  words.insert(words.begin(), "train");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return std::string(CheckFlags(static_cast<int>(arguments.size()), arguments.data()).message());
}

TEST(FlagHintsTest, WhatAbseilWouldTakeOtherwiseIsRefused) {
  for (const Names& right : std::vector<Names>{{"--data=a", "--lr", "-1", "--noshuffle"},
                                               {"--data", "a", "-steps=3", "--shuffle"},
                                               {"stray", "--help"},
                                               {"--undefok=x", "--x"},
                                               {"--", "--x"}}) {
    EXPECT_EQ(Check(right), "");
  }
  const std::string trap = Check({"--data=a", "--resume", "--out=a"});
  EXPECT_NE(trap.find("--resume has no value (behind it is the flag --out=a)"), std::string::npos)
      << trap;
  EXPECT_NE(trap.find("--resume=auto"), std::string::npos) << trap;
  EXPECT_NE(Check({"--out"}).find("--out has no value; write --out=VALUE"), std::string::npos);
  const std::string both = Check({"--max_steps=4", "--stps", "4"});
  EXPECT_NE(both.find("no flag --max_steps; did you mean --steps?"), std::string::npos) << both;
  EXPECT_NE(both.find("no flag --stps; did you mean --steps?"), std::string::npos) << both;
}

// Every name in the table leads to a flag that exists.
TEST(FlagHintsTest, HintsAreFlags) {
  for (const char* foreign : {"max_steps",
                              "learning_rate",
                              "lr_scheduler_type",
                              "warmup_iters",
                              "train_batch_size",
                              "gradient_accumulation_steps",
                              "block_size",
                              "adam_beta1",
                              "adam_epsilon",
                              "max_grad_norm",
                              "bf16",
                              "tf32",
                              "gradient_checkpointing",
                              "fsdp",
                              "cpu_offload",
                              "backend",
                              "num_gpus",
                              "model_name_or_path",
                              "tokenizer_name",
                              "dataset",
                              "validation_file",
                              "eval_steps",
                              "eval_iters",
                              "output_dir",
                              "overwrite_output_dir",
                              "save_steps",
                              "save_total_limit",
                              "resume_from_checkpoint",
                              "logging_steps",
                              "lora_r",
                              "lora_target_modules",
                              "use_ema",
                              "profile"}) {
    const Names hints = FlagHints(foreign, {});
    ASSERT_EQ(hints.size(), 1u) << foreign;
    const std::string flag = hints[0].substr(0, hints[0].find_first_of(" ="));
    EXPECT_EQ(Check({flag + "=1"}), "") << foreign;
  }
}

}  // namespace
}  // namespace zeroth
