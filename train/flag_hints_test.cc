// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/flag_hints.h"

#include <cstddef>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/train/option_registry.h"

namespace zeroth {
namespace {

using Names = std::vector<std::string>;

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

TEST(FlagHintsTest, OldNamesLeadToNewOnes) {
  EXPECT_EQ(DidYouMean("limit_all_gathers"), "; did you mean --gather_buffers (a number of them)?");
  EXPECT_EQ(DidYouMean("gather_bufers"), "; did you mean --gather_buffers?");
  EXPECT_EQ(DidYouMean("no_such_flag"), "");
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
                              "profile",
                              "limit_all_gathers"}) {
    const Names hints = FlagHints(foreign, {});
    ASSERT_EQ(hints.size(), 1u) << foreign;
    const size_t end = hints[0].find_first_of(" =");
    EXPECT_NE(FindOption(hints[0].substr(2, end - 2)), nullptr) << foreign;
  }
}

}  // namespace
}  // namespace zeroth
