// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/flag_hints.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace zeroth {
namespace {

struct Foreign {
  const char* name;
  const char* ours;
};

// Names that transformers, PyTorch recipes, DeepSpeed, Megatron-LM, nanoGPT and llm.c give to what
// a flag here does.
constexpr Foreign kForeign[] = {
    {"max_steps", "--steps"},
    {"max_iters", "--steps"},
    {"train_iters", "--steps"},
    {"num_steps", "--steps"},
    {"iterations", "--steps"},
    {"num_train_epochs", "--steps (a run counts optimizer steps)"},
    {"num_epochs", "--steps (a run counts optimizer steps)"},
    {"epochs", "--steps (a run counts optimizer steps)"},
    {"learning_rate", "--lr"},
    {"max_lr", "--lr"},
    {"min_learning_rate", "--min_lr"},
    {"lr_scheduler_type", "--lr_schedule"},
    {"lr_scheduler", "--lr_schedule"},
    {"lr_decay_style", "--lr_schedule"},
    {"warmup", "--warmup_steps"},
    {"warmup_ratio", "--warmup_steps (a number of steps)"},
    {"warmup_iters", "--warmup_steps"},
    {"lr_warmup_iters", "--warmup_steps"},
    {"num_warmup_steps", "--warmup_steps"},
    {"per_device_train_batch_size", "--batch_size"},
    {"train_batch_size", "--batch_size"},
    {"micro_batch_size", "--batch_size"},
    {"train_micro_batch_size_per_gpu", "--batch_size"},
    {"gradient_accumulation_steps", "--grad_accum"},
    {"accumulate_grad_batches", "--grad_accum"},
    {"block_size", "--seq_len"},
    {"max_length", "--seq_len"},
    {"max_seq_length", "--seq_len"},
    {"max_seq_len", "--seq_len"},
    {"seq_length", "--seq_len"},
    {"sequence_length", "--seq_len"},
    {"context_length", "--seq_len"},
    {"adam_beta1", "--beta1"},
    {"adam_beta2", "--beta2"},
    {"adam_epsilon", "--eps"},
    {"adam_eps", "--eps"},
    {"epsilon", "--eps"},
    {"wd", "--weight_decay"},
    {"max_grad_norm", "--clip_grad_norm"},
    {"gradient_clip_val", "--clip_grad_norm"},
    {"gradient_clipping", "--clip_grad_norm"},
    {"grad_clip", "--clip_grad_norm"},
    {"clip_grad", "--clip_grad_norm"},
    {"bf16", "--param_dtype=bf16 --reduce_dtype=bf16"},
    {"fp16", "--param_dtype=fp16"},
    {"tf32", "--fp32_precision=tf32"},
    {"dtype", "--param_dtype"},
    {"precision", "--param_dtype"},
    {"mixed_precision", "--param_dtype"},
    {"torch_dtype", "--param_dtype"},
    {"gradient_checkpointing", "--activation_checkpointing=block"},
    {"recompute_activations", "--activation_checkpointing=block"},
    {"checkpoint_activations", "--activation_checkpointing=block"},
    {"fsdp", "--strategy=full_shard"},
    {"sharding_strategy", "--strategy"},
    {"zero_stage", "--strategy (1: shard_optimizer, 2: shard_grad_op, 3: full_shard)"},
    {"stage", "--strategy (1: shard_optimizer, 2: shard_grad_op, 3: full_shard)"},
    {"cpu_offload", "--offload=all"},
    {"offload_optimizer", "--offload=optimizer"},
    {"offload_param", "--offload=parameters"},
    {"backend", "--comm"},
    {"distributed_backend", "--comm"},
    {"nproc_per_node", "--world_size"},
    {"num_processes", "--world_size"},
    {"num_gpus", "--world_size"},
    {"model_name_or_path", "--init_from"},
    {"model_name", "--model (from scratch) or --init_from (a directory)"},
    {"pretrained_model", "--init_from"},
    {"tokenizer_name", "--tokenizer"},
    {"tokenizer_path", "--tokenizer"},
    {"dataset", "--data"},
    {"dataset_name", "--data"},
    {"train_file", "--data"},
    {"train_data", "--data"},
    {"data_path", "--data"},
    {"data_dir", "--data"},
    {"input", "--data"},
    {"validation_file", "--eval_data"},
    {"val_data", "--eval_data"},
    {"eval_steps", "--eval_every"},
    {"eval_interval", "--eval_every"},
    {"eval_iters", "--eval_batches"},
    {"output_dir", "--out"},
    {"out_dir", "--out"},
    {"save", "--out"},
    {"overwrite_output_dir", "--overwrite"},
    {"save_steps", "--checkpoint_every"},
    {"save_interval", "--checkpoint_every"},
    {"checkpoint_interval", "--checkpoint_every"},
    {"save_total_limit", "--keep_last"},
    {"resume_from_checkpoint", "--resume"},
    {"load", "--resume"},
    {"logging_steps", "--log_every"},
    {"log_interval", "--log_every"},
    {"lora_r", "--lora_rank"},
    {"use_lora", "--lora_rank"},
    {"lora_target_modules", "--lora_targets"},
    {"use_ema", "--ema_decay"},
    {"profile", "--trace"},
};

// What Abseil's parser knows besides flags that are defined.
constexpr absl::string_view kOfAbseil[] = {"help",      "helpfull",    "helpmatch", "helpon",
                                           "helpshort", "helppackage", "version"};

// Insertions, deletions and replacements that make one of the other, and swaps of neighbours.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] =
          std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        now[j] = std::min(now[j], before[j - 2] + 1);
      }
    }
    before = last;
    last = now;
  }
  return last[b.size()];
}

std::string WithUnderscores(absl::string_view name) {
  return absl::StrReplaceAll(name, {{"-", "_"}, {".", "_"}});
}

std::vector<std::string> KnownFlags() {
  std::vector<std::string> names;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (absl::EndsWith(flag->Filename(), "train/flags.cc")) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

const absl::CommandLineFlag* FindFlag(absl::string_view name) {
  if (const auto* const flag = absl::FindCommandLineFlag(name)) return flag;
  if (!absl::ConsumePrefix(&name, "no")) return nullptr;
  const auto* const negated = absl::FindCommandLineFlag(name);
  return negated != nullptr && negated->IsOfType<bool>() ? negated : nullptr;
}

std::string Unknown(absl::string_view name) {
  const std::vector<std::string> hints = FlagHints(name, KnownFlags());
  return absl::StrCat("there is no flag --", name,
                      hints.empty()
                          ? std::string()
                          : absl::StrCat("; did you mean ", absl::StrJoin(hints, " or "), "?"));
}

}  // namespace

std::vector<std::string> FlagHints(absl::string_view unknown,
                                   const std::vector<std::string>& known) {
  const std::string name = WithUnderscores(unknown);
  for (const Foreign& foreign : kForeign) {
    if (name == foreign.name) return {foreign.ours};
  }
  // A typing error in one letter of three or four; in more, it is another word.
  const size_t most = std::max<size_t>(1, name.size() / 4);
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& flag : known) {
    const size_t distance = EditDistance(name, flag);
    if (distance <= most) near.emplace_back(distance, absl::StrCat("--", flag));
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> hints;
  for (const auto& [distance, flag] : near) {
    if (distance > near.front().first || hints.size() == 3) break;
    hints.push_back(flag);
  }
  return hints;
}

absl::Status CheckFlags(int argc, char** argv) {
  std::vector<std::string> wrong;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (argument == "--") break;
    // Not a flag: the caller's to refuse. Abseil takes one dash for two.
    if (argument == "-" || !absl::ConsumePrefix(&argument, "-")) continue;
    absl::ConsumePrefix(&argument, "-");
    const size_t equals = argument.find('=');
    const absl::string_view name = argument.substr(0, equals);
    // They say themselves which flags there need not be.
    if (name == "undefok") return absl::OkStatus();
    if (std::find(std::begin(kOfAbseil), std::end(kOfAbseil), name) != std::end(kOfAbseil))
      continue;
    const absl::CommandLineFlag* const flag = FindFlag(name);
    if (flag == nullptr) {
      wrong.push_back(Unknown(name));
      continue;
    }
    if (equals != absl::string_view::npos || flag->IsOfType<bool>()) continue;
    const bool has_value = i + 1 < argc && !absl::StartsWith(argv[i + 1], "--");
    if (!has_value) {
      wrong.push_back(absl::StrCat(
          "--", name, " has no value",
          i + 1 < argc ? absl::StrCat(" (behind it is the flag ", argv[i + 1], ")") : "",
          "; write --", name, "=",
          name == "resume" ? "auto, or the path of a checkpoint" : "VALUE"));
    } else {
      ++i;
    }
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      absl::StrJoin(wrong, "\n  "), wrong.size() > 1 ? "\n  " : "; ", "--help lists all flags"));
}

}  // namespace zeroth
