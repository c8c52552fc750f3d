// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/options/options.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/options/option_registry.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

TrainOptions Valid() {
  TrainOptions options;
  options.data = "README.md";
  return options;
}

TEST(OptionsTest, TargetsOfAdapters) {
  TrainOptions options = Valid();
  EXPECT_TRUE(options.lora().targets.empty() && options.lora().experts);
  options.lora_targets = "all_but_experts";
  EXPECT_TRUE(options.lora().targets.empty() && !options.lora().experts);
  options.lora_targets = "q_proj, up_proj";
  EXPECT_EQ(options.lora().targets, (std::vector<std::string>{"q_proj", "up_proj"}));
}

TEST(OptionsTest, DefaultsNeedOnlyData) {
  EXPECT_TRUE(Validate(Valid()).ok());
  const absl::Status status = Validate(TrainOptions());
  EXPECT_NE(status.ToString().find("--data=README.md"), std::string::npos) << status;
}

TEST(OptionsTest, TheLearningRateEndsWithATenthOfItself) {
  TrainOptions options = Valid();
  EXPECT_EQ(options.final_lr(), 1e-4);
  options.lr = 3e-5;
  EXPECT_DOUBLE_EQ(options.final_lr(), 3e-6);
  EXPECT_TRUE(Validate(options).ok());
  options.min_lr = 0;
  EXPECT_EQ(options.final_lr(), 0);
  EXPECT_TRUE(Validate(options).ok());
}

TEST(OptionsTest, EveryBadValueIsNamed) {
  using Spoil = std::function<void(TrainOptions&)>;
  const std::vector<std::pair<std::string, Spoil>> cases = {
      {"--comm_timeout=0", [](TrainOptions& o) { o.comm_timeout = "0"; }},
      {"--comm_timeout=soon", [](TrainOptions& o) { o.comm_timeout = "soon"; }},
      {"--grad_accum=0", [](TrainOptions& o) { o.grad_accum = 0; }},
      {"--global_batch_size=-8", [](TrainOptions& o) { o.global_batch_size = -8; }},
      {"--deterministic_batch=-1", [](TrainOptions& o) { o.deterministic_batch = -1; }},
      {"--reshard_after_forward=0", [](TrainOptions& o) { o.reshard_after_forward = "0"; }},
      {"--reshard_after_forward=yes", [](TrainOptions& o) { o.reshard_after_forward = "yes"; }},
      {"--gather_buffers=0: expected a whole number of at least 1",
       [](TrainOptions& o) { o.gather_buffers = 0; }},
      {"--gradient_divide_factor=-2", [](TrainOptions& o) { o.gradient_divide_factor = -2; }},
      {"--max_nonfinite_steps=3 needs --on_nonfinite=skip",
       [](TrainOptions& o) { o.max_nonfinite_steps = 3; }},
      {"--trace=trace.json: expected FROM:TO", [](TrainOptions& o) { o.trace = "trace.json"; }},
      {"--epochs=2 and --steps=7",
       [](TrainOptions& o) {
         o.epochs = 2;
         o.steps = 7;
       }},
      {"--warmup_ratio=0.1 and --warmup_steps=7",
       [](TrainOptions& o) {
         o.warmup_ratio = 0.1;
         o.warmup_steps = 7;
       }},
      {"--decay_ratio=0 expected a part",
       [](TrainOptions& o) {
         o.decay_ratio = 0;
         o.lr_schedule = "wsd";
       }},
      {"would rise from 0.001 to its end", [](TrainOptions& o) { o.min_lr = 0.01; }},
      {"--decay_ratio=0.2 and --lr_schedule=cosine", [](TrainOptions& o) { o.decay_ratio = 0.2; }},
      {"--epochs=-1", [](TrainOptions& o) { o.epochs = -1; }},
      {"--min_lr=0.0001 and --lr_schedule=constant",
       [](TrainOptions& o) {
         o.min_lr = 1e-4;
         o.lr_schedule = "constant";
       }},
      {"--parse_special and --tokenizer=byte",
       [](TrainOptions& o) {
         o.parse_special = true;
         o.tokenizer = "byte";
       }},
      {"--max_shard_size=5GB and --lora_export=adapter",
       [](TrainOptions& o) {
         o.max_shard_size = "5GB";
         o.lora_rank = 8;
         o.lora_export = LoraExport::kAdapter;
       }},
      {"--keep_last=3 needs --checkpoint_every", [](TrainOptions& o) { o.keep_last = 3; }},
      {"--keep_every=100 needs --checkpoint_every", [](TrainOptions& o) { o.keep_every = 100; }},
      {"--data=caf\xe9.txt: is not UTF-8", [](TrainOptions& o) { o.data = "caf\xe9.txt"; }},
      {"--check_replicas_every=-2", [](TrainOptions& o) { o.check_replicas_every = -2; }},
      {"--memory_limit=2 cups", [](TrainOptions& o) { o.memory_limit = "2 cups"; }},
      {"--nccl_copy_engine=on and --comm=local",
       [](TrainOptions& o) {
         o.nccl_copy_engine = NcclCopyEngine::kOn;
         o.comm = "local";
       }},
      {"--world_size=-1", [](TrainOptions& o) { o.world_size = -1; }},
      {"--shard_size=-1", [](TrainOptions& o) { o.shard_size = -1; }},
      {"--threads_per_rank=-2", [](TrainOptions& o) { o.threads_per_rank = -2; }},
      {"grad_accum_dtype is bf16 and reduce_dtype is fp32",
       [](TrainOptions& o) { o.grad_accum_dtype = DType::kBFloat16; }},
      {"same 16-bit type for both",
       [](TrainOptions& o) {
         o.param_dtype = DType::kBFloat16;
         o.reduce_dtype = DType::kFloat16;
       }},
      {"bf16 masters of bf16 parameters",
       [](TrainOptions& o) { o.master_dtype = DType::kBFloat16; }},
      {"--lora_targets=q_proj,: expected all, all_but_experts, or names",
       [](TrainOptions& o) {
         o.lora_rank = 2;
         o.lora_targets = "q_proj,";
       }},
      {"--lora_modules_to_save=lm_head,: expected names as embed_tokens,lm_head",
       [](TrainOptions& o) {
         o.lora_rank = 2;
         o.lora_modules_to_save = "lm_head,";
       }},
      {"--temperature=-1: expected a finite number of at least 0",
       [](TrainOptions& o) { o.temperature = -1; }},
      {"--lora_alpha=nan: expected a finite number", [](TrainOptions& o) { o.lora_alpha = NAN; }},
      {"--skip_loss_zscore=12: expected a finite number of at least 0 and below 11.2694",
       [](TrainOptions& o) { o.skip_loss_zscore = 12; }},
      {"--base_dtype=nf4 needs --lora_rank",
       [](TrainOptions& o) { o.base_dtype = BaseDtype::kNf4; }},
      {"--base_dtype=nf4 and --lora_dora",
       [](TrainOptions& o) {
         o.lora_rank = 2;
         o.init_from = "model";
         o.lora_dora = true;
         o.base_dtype = BaseDtype::kNf4;
       }},
      {"--base_dtype=nf4 and --fp8=tensorwise",
       [](TrainOptions& o) {
         o.lora_rank = 2;
         o.init_from = "model";
         o.param_dtype = DType::kBFloat16;
         o.fp8 = Fp8Recipe::kTensorwise;
         o.base_dtype = BaseDtype::kNf4;
       }},
      {"--lora_dora and --lora_dropout=0.1",
       [](TrainOptions& o) {
         o.lora_rank = 2;
         o.lora_dora = true;
         o.lora_dropout = 0.1;
       }},
      {"--lora_dropout=0.1 and --cuda_graphs",
       [](TrainOptions& o) {
         o.lora_rank = 2;
         o.lora_dropout = 0.1;
         o.cuda_graphs = true;
       }},
      {"--skip_grad_norm_zscore=4 and --cuda_graphs",
       [](TrainOptions& o) {
         o.cuda_graphs = true;
         o.skip_grad_norm_zscore = 4;
       }},
      {"--max_shard_size=much", [](TrainOptions& o) { o.max_shard_size = "much"; }},
      {"--lora_export=both needs --lora_rank",
       [](TrainOptions& o) { o.lora_export = LoraExport::kBoth; }},
      {"--loss_scale=loud", [](TrainOptions& o) { o.loss_scale = "loud"; }},
      {"--loss_scale=1000", [](TrainOptions& o) { o.loss_scale = "1000"; }},
      {"--loss_scale_growth_interval=0",
       [](TrainOptions& o) {
         o.loss_scale = "dynamic";
         o.loss_scale_growth_interval = 0;
       }},
      {"--loss_scale_growth_interval=10 needs",
       [](TrainOptions& o) { o.loss_scale_growth_interval = 10; }},
      {"--loss_scale_growth_interval=10 needs",
       [](TrainOptions& o) {
         o.loss_scale = "1024";
         o.loss_scale_growth_interval = 10;
       }},
      {"--lora_alpha=8 needs --lora_rank", [](TrainOptions& o) { o.lora_alpha = 8; }},
      {"--async_when_busy=skip needs --async_checkpoint",
       [](TrainOptions& o) { o.async_when_busy = AsyncWhenBusy::kSkip; }},
      {"--muon_lr=0.01 needs --optimizer=muon", [](TrainOptions& o) { o.muon_lr = 0.01; }},
      {"--muon_split_qkv needs --optimizer=muon", [](TrainOptions& o) { o.muon_split_qkv = true; }},
      {"--optimizer=muon and --offload=optimizer: Muon works on state in memory",
       [](TrainOptions& o) {
         o.optimizer = "muon";
         o.offload = "optimizer";
       }},
      {"--layout=rows and --optimizer_state_dtype=float8_block",
       [](TrainOptions& o) {
         o.layout = LayoutKind::kRows;
         o.optimizer_state_dtype = DType::kUInt8;
       }},
      {"--ema_decay=0.5 and --master_dtype=bf16",
       [](TrainOptions& o) {
         o.ema_decay = 0.5;
         o.param_dtype = DType::kBFloat16;
         o.master_dtype = DType::kBFloat16;
       }},
      {"--batch_size=0", [](TrainOptions& o) { o.batch_size = 0; }},
      {"--seq_len=-1", [](TrainOptions& o) { o.seq_len = -1; }},
      {"--steps=-1", [](TrainOptions& o) { o.steps = -1; }},
      {"--lr=-0.1", [](TrainOptions& o) { o.lr = -0.1; }},
      {"--lr=nan", [](TrainOptions& o) { o.lr = NAN; }},
      {"--beta1=1: expected a finite number of at least 0 and below 1",
       [](TrainOptions& o) { o.beta1 = 1; }},
      {"--beta2=-0.5", [](TrainOptions& o) { o.beta2 = -0.5; }},
      {"--eps=inf", [](TrainOptions& o) { o.eps = INFINITY; }},
      {"--clip_grad_norm=-1", [](TrainOptions& o) { o.clip_grad_norm = -1; }},
      {"--log_every=0", [](TrainOptions& o) { o.log_every = 0; }},
      {"--eval_every", [](TrainOptions& o) { o.eval_every = 5; }},
      {"--init_from=dir",
       [](TrainOptions& o) {
         o.model = "gpt2_124m";
         o.init_from = "dir";
       }},
      {"--overwrite needs --out", [](TrainOptions& o) { o.overwrite = true; }},
      {"--overwrite and --resume=auto",
       [](TrainOptions& o) {
         o.out = "run";
         o.overwrite = true;
         o.resume = "auto";
       }},
      {"--min_lr=0.0001 and --lr=3e-05",
       [](TrainOptions& o) {
         o.lr = 3e-5;
         o.min_lr = 1e-4;
       }},
      {"--min_lr=-2: expected a finite number of at least 0, or -1",
       [](TrainOptions& o) { o.min_lr = -2; }},
      {"--offload=weights: expected none, all, or a list",
       [](TrainOptions& o) { o.offload = "weights"; }},
      {"--fp32_precision=tf32 and --param_dtype=bf16",
       [](TrainOptions& o) {
         o.fp32_precision = Fp32Precision::kTf32;
         o.param_dtype = DType::kBFloat16;
       }},
      {"--attention_backend=cudnn and --param_dtype=fp32",
       [](TrainOptions& o) { o.attention_backend = AttentionBackend::kCudnn; }},
      {"--attention_determinism=off and --param_dtype=fp32",
       [](TrainOptions& o) { o.attention_determinism = AttentionDeterminism::kOff; }},
      {"--attention_determinism=off and --attention_backend=flash",
       [](TrainOptions& o) {
         o.param_dtype = DType::kBFloat16;
         o.attention_determinism = AttentionDeterminism::kOff;
         o.attention_backend = AttentionBackend::kFlash;
       }},
      {"--deterministic_batch=4 and --attention_determinism=off",
       [](TrainOptions& o) {
         o.param_dtype = DType::kBFloat16;
         o.deterministic_batch = 4;
         o.attention_determinism = AttentionDeterminism::kOff;
       }},
      {"--deterministic_tensor=2 and --attention_determinism=off",
       [](TrainOptions& o) {
         o.param_dtype = DType::kBFloat16;
         o.deterministic_tensor = 2;
         o.attention_determinism = AttentionDeterminism::kOff;
       }},
      {"--fp8=tensorwise and --param_dtype=fp32",
       [](TrainOptions& o) { o.fp8 = Fp8Recipe::kTensorwise; }},
      {"--offload_dir=/scratch without --offload",
       [](TrainOptions& o) { o.offload_dir = "/scratch"; }},
  };
  for (const auto& [message, spoil] : cases) {
    TrainOptions options = Valid();
    spoil(options);
    const absl::Status status = Validate(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_NE(status.ToString().find(message), std::string::npos) << status;
  }
}

TEST(OptionsTest, AMisspeltWordIsRefusedWithTheListOfWords) {
  const std::pair<const char*, const char*> cases[] = {
      {"backward_prefetch=early", "expected pre, post or none"},
      {"layout=columns", "expected flat or rows"},
      {"grad_sync=never", "expected every or last"},
      {"activation_checkpointing=all",
       "expected none, block, selective, attention, mlp or elementwise"},
      {"on_nonfinite=", "expected stop or skip"},
      {"on_long=cut", "expected truncate, split, drop or refuse"},
      {"muon_scale=match_rms", "expected match_rms_adamw or spectral"},
      {"reduction=ring", "expected tree or nccl"},
      {"nccl_copy_engine=yes", "expected auto, on or off"},
      {"param_dtype=int8", "expected fp32, bf16 or fp16"},
      {"master_dtype=fp16", "expected fp32 or bf16"},
      {"optimizer_state_dtype=uint8",
       "expected fp32, bf16 or float8_block; int8 is called float8_block now"},
      {"export_dtype=fp16", "expected auto, fp32 or bf16"},
      {"lora_export=all", "expected merged, adapter or both"},
      {"fp32_precision=high", "expected ieee or tf32"},
      {"fp8=rowwise", "expected none or tensorwise"},
      {"attention_determinism=maybe", "expected on or off"},
      {"attention_backend=math", "expected auto, cudnn or flash"},
      {"like=Zeroth", "expected zeroth, fsdp2, megatron_fsdp or deepspeed"},
  };
  for (const auto& [flag, message] : cases) {
    const std::pair<std::string, std::string> set = absl::StrSplit(flag, '=');
    TrainOptions options;
    const absl::Status status = SetOption(*FindOption(set.first), set.second, options);
    EXPECT_EQ(status, absl::InvalidArgumentError(message)) << flag;
  }
}

TEST(OptionsTest, TheHelpSaysWhichMomentsAreNotIn8Bits) {
  EXPECT_TRUE(absl::StrContains(FindOption("optimizer_state_dtype")->help,
                                absl::StrCat("fp32 for parameters of fewer than ",
                                             TrainOptions().optimizer_options().min_8bit_numel)));
}

TEST(OptionsTest, AnObjectiveOfPairsHasItsOwnDefaults) {
  TrainOptions options;
  options.init_from = "somewhere";
  EXPECT_FALSE(options.preference().has_value());
  EXPECT_FALSE(options.caches_reference());
  options.objective = Objective::kDpo;
  EXPECT_EQ(options.preference()->kind, PreferenceKind::kDpo);
  EXPECT_EQ(options.preference()->beta, 0.1f);
  EXPECT_EQ(options.preference()->gamma, 0.0f);
  EXPECT_EQ(options.peak_lr(), 1e-6);
  EXPECT_TRUE(options.caches_reference());
  options.lora_rank = 8;
  EXPECT_EQ(options.peak_lr(), 1e-5);
  EXPECT_FALSE(options.caches_reference());
  options.lora_modules_to_save = "lm_head";
  EXPECT_TRUE(options.caches_reference());
  options.reference = "adapter_off";
  EXPECT_FALSE(options.caches_reference());
  EXPECT_EQ(options.reference_path(), "");
  options.reference = "models/sft";
  EXPECT_TRUE(options.caches_reference());
  EXPECT_EQ(options.reference_path(), "models/sft");
  options.objective = Objective::kSimpo;
  options.reference = "auto";
  EXPECT_FALSE(options.caches_reference());
  EXPECT_EQ(options.preference()->beta, 2.0f);
  EXPECT_EQ(options.preference()->gamma, 1.0f);
  options.preference_beta = 0.5;
  options.simpo_gamma = 0.25;
  EXPECT_EQ(options.preference()->beta, 0.5f);
  EXPECT_EQ(options.preference()->gamma, 0.25f);
}

TEST(OptionsTest, EveryWordSetsItsEnumeratorAndIsWrittenBack) {
  TrainOptions options;
  int choices = 0;
  for (const Option& option : AllOptions()) {
    choices += option.allowed.words.empty() ? 0 : 1;
    for (const auto& [word, enumerator] : option.allowed.words) {
      EXPECT_EQ(SetOption(option, word, options), absl::OkStatus()) << option.name;
      EXPECT_EQ(std::get<EnumField>(option.field).get(options), enumerator) << option.name;
      EXPECT_EQ(OptionText(option, options), word) << option.name;
    }
  }
  EXPECT_EQ(choices, 29);
  EXPECT_EQ(options.like, Like::kDeepspeed);
  EXPECT_EQ(options.layout, LayoutKind::kRows);
  EXPECT_EQ(options.optimizer_state_dtype, DType::kUInt8);
  EXPECT_EQ(options.activation_checkpointing, ActivationCheckpointing::kElementwise);
}

// Only code can give an option a value that has no word.
TEST(OptionsTest, AnEnumeratorWithoutAWordIsRefused) {
  TrainOptions options = Valid();
  options.master_dtype = DType::kFloat16;
  EXPECT_THAT(Validate(options).ToString(), HasSubstr("--master_dtype=2: expected fp32 or bf16"));
}

TEST(OptionsTest, CoresAreSharedUnlessToldOtherwise) {
  TrainOptions options = Valid();
  options.threads_per_rank = 3;
  EXPECT_EQ(ThreadsPerRank(options), 3);
  options.threads_per_rank = 0;
  options.world_size = 1 << 20;
  EXPECT_EQ(ThreadsPerRank(options), 1);
  // The others are elsewhere.
  options.local_world_size = 1;
  EXPECT_EQ(ThreadsPerRank(options),
            std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
}

TEST(OptionsTest, ADeterministicBatchSaysWhatRanksAccumulate) {
  TrainOptions options = Valid();
  options.world_size = 4;
  options.grad_accum = 3;
  EXPECT_EQ(WithSharesOfRanks(options)->grad_accum, 3);
  options.deterministic_batch = 24;
  EXPECT_EQ(Validate(options), absl::OkStatus());
  const std::string three = WithSharesOfRanks(options).status().ToString();
  EXPECT_NE(three.find("over 4 ranks is 6 micro-batches on each"), std::string::npos) << three;
  options.grad_accum = 6;
  EXPECT_EQ(WithSharesOfRanks(options)->grad_accum, 6);
  options.grad_accum = 1;
  EXPECT_EQ(WithSharesOfRanks(options)->grad_accum, 6);
  options.world_size = 3;
  const std::string ranks = WithSharesOfRanks(options).status().ToString();
  EXPECT_NE(ranks.find("divides it: 1, 2, 4, 8"), std::string::npos) << ranks;
}

TEST(OptionsTest, RanksShareLayersAndTheBatch) {
  TrainOptions options;
  options.world_size = 6;
  options.tensor_parallel = 4;
  EXPECT_THAT(WithSharesOfRanks(options).status().ToString(),
              HasSubstr("--tensor_parallel=4 does not divide the 6 ranks of the run"));
  options.world_size = 8;
  options.deterministic_batch = 12;
  options.global_batch_size = 24;
  EXPECT_EQ(WithSharesOfRanks(options)->grad_accum, 6);
  EXPECT_EQ(WithSharesOfRanks(options)->batch_size, 2);
}

TEST(OptionsTest, TheGlobalBatchIsDividedAmongRanksAndMicroBatches) {
  TrainOptions options;
  options.world_size = 4;
  options.grad_accum = 3;
  EXPECT_EQ(WithSharesOfRanks(options)->batch_size, options.batch_size);
  options.global_batch_size = 24;
  EXPECT_EQ(WithSharesOfRanks(options)->batch_size, 2);
  EXPECT_EQ(SequencesPerStep(*WithSharesOfRanks(options)), 24);
  options.batch_size = 3;
  EXPECT_THAT(
      WithSharesOfRanks(options).status().ToString(),
      HasSubstr("--global_batch_size=24 and --batch_size=3: the one follows from the other, "
                "and makes it 2"));
  options.batch_size = TrainOptions().batch_size;
  options.batch_size_is_given = true;
  EXPECT_THAT(WithSharesOfRanks(options).status().ToString(), HasSubstr("--batch_size=8: the one"));
  options.batch_size = 2;
  EXPECT_EQ(WithSharesOfRanks(options)->batch_size, 2);
  options.global_batch_size = 6;
  EXPECT_THAT(WithSharesOfRanks(options).status().ToString(),
              HasSubstr("--global_batch_size=6 over 4 ranks with 3 micro-batches each: expected a "
                        "multiple of 12"));
}

TEST(OptionsTest, WhatADeterministicBatchDoesNotGoWith) {
  const std::vector<std::pair<std::string, std::function<void(TrainOptions&)>>> cases = {
      {"--grad_sync=last", [](TrainOptions& o) { o.grad_sync = GradSync::kLast; }},
      {"--grad_accum_dtype",
       [](TrainOptions& o) {
         o.reduce_dtype = DType::kBFloat16;
         o.grad_accum_dtype = DType::kBFloat16;
       }},
      {"--quantized_weights", [](TrainOptions& o) { o.quantized_weights = true; }},
      {"--quantized_gradients", [](TrainOptions& o) { o.quantized_gradients = true; }},
      {"--reduction=nccl", [](TrainOptions& o) { o.reduction = Reduction::kNccl; }},
      {"--gradient_divide_factor", [](TrainOptions& o) { o.gradient_divide_factor = 2; }}};
  for (const auto& [flag, change] : cases) {
    TrainOptions options = Valid();
    change(options);
    EXPECT_EQ(Validate(options), absl::OkStatus()) << flag;
    options.deterministic_batch = 8;
    const absl::Status refused = Validate(options);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << flag;
    EXPECT_NE(refused.ToString().find(flag), std::string::npos) << refused;
  }
}

TEST(OptionsTest, Timeouts) {
  EXPECT_EQ(*ParseTimeout("90s"), absl::Seconds(90));
  EXPECT_EQ(*ParseTimeout(TrainOptions().comm_timeout), absl::Minutes(10));
  EXPECT_EQ(*ParseTimeout("inf"), absl::InfiniteDuration());
  for (const char* text : {"", "0", "-1s", "10", "ten minutes"}) {
    EXPECT_FALSE(ParseTimeout(text).ok()) << text;
  }
}

TEST(OptionsTest, KindsOfStateToOffload) {
  const auto kinds = [](const char* text) {
    const OffloadOptions options = *ParseOffload(text);
    return std::string(options.parameters ? "p" : "") + (options.gradients ? "g" : "") +
           (options.optimizer ? "o" : "");
  };
  EXPECT_EQ(kinds("none"), "");
  EXPECT_EQ(kinds("all"), "pgo");
  EXPECT_EQ(kinds("optimizer"), "o");
  EXPECT_EQ(kinds("optimizer,gradients"), "go");
  EXPECT_EQ(kinds("parameters,gradients,optimizer"), "pgo");
  for (const char* text : {"", ",", "optimizer,", "none,optimizer", "optimizer,optimizer", "ALL"}) {
    EXPECT_FALSE(ParseOffload(text).ok()) << text;
  }
  TrainOptions options = Valid();
  options.offload = "gradients";
  options.offload_dir = "/scratch";
  EXPECT_EQ(Validate(options), absl::OkStatus());
  EXPECT_TRUE(options.offload_options().gradients);
  EXPECT_EQ(options.offload_options().directory, "/scratch");
}

}  // namespace
}  // namespace zeroth
