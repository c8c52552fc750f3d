// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "zeroth/options/option_registry.h"

namespace zeroth {
namespace {

TEST(FlagHintsTest, OtherFrameworksNamesAreKnown) {
  EXPECT_EQ(DidYouMean("max_steps"), "; did you mean --steps?");
  EXPECT_EQ(DidYouMean("learning_rate"), "; did you mean --lr?");
  EXPECT_EQ(DidYouMean("per_device_train_batch_size"), "; did you mean --batch_size?");
  // These are spellings of Megatron-LM and Lightning.
  EXPECT_EQ(DidYouMean("micro-batch-size"), "; did you mean --batch_size?");
  // torchtitan's names have a section.
  EXPECT_EQ(DidYouMean("parallelism.tensor_parallel_degree"), "; did you mean --tensor_parallel?");
  EXPECT_EQ(DidYouMean("use_wandb"), "; did you mean tools/watch/follow.py --to=wandb?");
  EXPECT_EQ(DidYouMean("bf16"), "; did you mean --param_dtype=bf16 --reduce_dtype=bf16?");
}

// beta1 is nearer in spelling, but is AdamW's.
TEST(FlagHintsTest, TheBetaOfPreferencesIsNotAdamWs) {
  EXPECT_EQ(DidYouMean("beta"), "; did you mean --preference_beta?");
}

TEST(FlagHintsTest, TheNearestNamesAreNamed) {
  EXPECT_EQ(DidYouMean("batchsize"), "; did you mean --batch_size?");
  EXPECT_EQ(DidYouMean("batch_szie"), "; did you mean --batch_size?");
  EXPECT_EQ(DidYouMean("seq-len"), "; did you mean --seq_len?");
  EXPECT_EQ(DidYouMean("step"), "; did you mean --steps?");
  EXPECT_EQ(DidYouMean("stratgey"), "; did you mean --strategy?");
  EXPECT_EQ(DidYouMean("beta3"), "; did you mean --beta1 or --beta2?");
  EXPECT_EQ(DidYouMean("no_such_flag"), "");
  EXPECT_EQ(DidYouMean(""), "");
}

TEST(FlagHintsTest, OldNamesLeadToNewOnes) {
  EXPECT_EQ(DidYouMean("limit_all_gathers"), "; did you mean --gather_buffers (a number of them)?");
  EXPECT_EQ(DidYouMean("gather_bufers"), "; did you mean --gather_buffers?");
}

TEST(FlagHintsTest, StagesOfOtherFrameworksAreObjectives) {
  const Option& objective = *FindOption("objective");
  TrainOptions options;
  const std::string expected = "expected next_token, dpo, ipo, simpo, orpo, kto, reward or distill";
  const std::string answers =
      "; did you mean next_token (the default): with chats, or prompts and completions, in --data "
      "it learns the answers?";
  const std::string text =
      "; did you mean next_token (the default): with text in --data it learns all of it?";
  for (const auto& [word, hint] : {std::pair<const char*, std::string>("sft", answers),
                                   {"SFT", answers},
                                   {"cpt", text},
                                   {"pretrain", text},
                                   {"reward_modeling", "; did you mean reward?"},
                                   {"ppo", ""}}) {
    EXPECT_EQ(SetOption(objective, word, options), absl::InvalidArgumentError(expected + hint))
        << word;
  }
  EXPECT_EQ(ValueHint("strategy", "sft"), "");
  for (const auto& [value, hint] :
       {std::pair<const char*, std::string>(
            "my/template.j2", "; if that is a Jinja template, rename it so that it ends in .jinja"),
        {"llama", ""}}) {
    EXPECT_EQ(SetOption(*FindOption("chat_template"), value, options),
              absl::InvalidArgumentError(
                  "expected auto, chatml, llama3, mistral, or the path of a .jinja file" + hint));
  }
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
                              "modules_to_save",
                              "use_rslora",
                              "use_dora",
                              "lora_target_modules",
                              "use_ema",
                              "profile",
                              "limit_all_gathers",
                              "loss_type",
                              "ref_model",
                              "label_smoothing",
                              "optim",
                              "data_parallel_shard_degree",
                              "tensor_parallel_degree",
                              "base_model",
                              "adapter",
                              "lora_model_dir",
                              "train_on_inputs",
                              "attn_implementation",
                              "report_to"}) {
    const std::string hint = DidYouMean(foreign);
    const size_t begin = hint.find("--") + 2;
    const std::string name = hint.substr(begin, hint.find_first_of(" =?", begin) - begin);
    EXPECT_NE(FindOption(name), nullptr) << foreign << hint;
  }
}

}  // namespace
}  // namespace zeroth
