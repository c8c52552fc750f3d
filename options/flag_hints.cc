// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "zeroth/core/base/did_you_mean.h"
#include "zeroth/options/option_registry.h"

namespace zeroth {
namespace {

// Zeroth's flags, and their names in transformers, TRL, axolotl, torchtitan, PyTorch's recipes and
// FSDP, DeepSpeed, Megatron-LM, nanoGPT, llm.c and earlier versions of Zeroth.
constexpr NamedElsewhere kElsewhere[] = {
    {"--steps", "max_steps max_iters train_iters num_steps iterations"},
    {"--epochs", "num_train_epochs num_epochs"},
    {"--lr", "learning_rate max_lr"},
    {"--min_lr", "min_learning_rate"},
    {"--lr_schedule", "lr_scheduler_type lr_scheduler lr_decay_style"},
    {"--warmup_steps", "warmup warmup_iters lr_warmup_iters num_warmup_steps"},
    {"--batch_size",
     "per_device_train_batch_size train_batch_size micro_batch_size "
     "train_micro_batch_size_per_gpu"},
    {"--grad_accum", "gradient_accumulation_steps gradient_accumulation accumulate_grad_batches"},
    {"--seq_len",
     "block_size max_length max_seq_length max_seq_len seq_length sequence_length sequence_len "
     "context_length"},
    {"--objective", "loss_type pref_loss rl"},
    {"--reference", "ref_model ref_model_name_or_path"},
    // By its spelling, "beta" would lead to AdamW's.
    {"--preference_beta", "beta pref_beta rl_beta dpo_beta orpo_alpha"},
    {"--preference_label_smoothing", "label_smoothing"},
    {"--optimizer", "optim"},
    {"--beta1", "adam_beta1"},
    {"--beta2", "adam_beta2"},
    {"--eps", "adam_epsilon adam_eps epsilon"},
    {"--weight_decay", "wd"},
    {"--clip_grad_norm", "max_grad_norm gradient_clip_val gradient_clipping grad_clip clip_grad"},
    {"--param_dtype=bf16 --reduce_dtype=bf16", "bf16"},
    {"--param_dtype=fp16", "fp16"},
    {"--fp32_precision=tf32", "tf32"},
    {"--param_dtype", "dtype precision mixed_precision torch_dtype"},
    {"--activation_checkpointing=block",
     "gradient_checkpointing recompute_activations checkpoint_activations"},
    {"--gather_buffers (a number of them)", "limit_all_gathers"},
    {"--strategy=full_shard", "fsdp"},
    {"--strategy", "sharding_strategy"},
    {"--strategy (1: shard_optimizer, 2: shard_grad_op, 3: full_shard)",
     "zero_stage stage deepspeed"},
    {"--shard_size", "data_parallel_shard_degree"},
    {"--tensor_parallel",
     "tensor_parallel_degree tensor_parallel_size tensor_model_parallel_size tp_size"},
    {"--offload=all", "cpu_offload"},
    {"--offload=optimizer", "offload_optimizer"},
    {"--offload=parameters", "offload_param"},
    {"--comm", "backend distributed_backend"},
    {"--world_size", "nproc_per_node num_processes num_gpus gpus"},
    {"--init_from", "model_name_or_path pretrained_model base_model"},
    {"--model (from scratch) or --init_from (a directory)", "model_name"},
    {"--tokenizer", "tokenizer_name tokenizer_path"},
    {"--data", "dataset datasets dataset_name train_file train_data data_path data_dir input"},
    {"--eval_data", "validation_file val_data"},
    {"--eval_fraction", "validation_split val_size val_set_size test_size"},
    {"--eval_every", "eval_steps eval_interval"},
    {"--eval_batches", "eval_iters"},
    {"--out", "output_dir out_dir save"},
    {"--overwrite", "overwrite_output_dir"},
    {"--checkpoint_every", "save_steps save_every save_interval checkpoint_interval"},
    {"--keep_last", "save_total_limit"},
    {"--resume", "resume_from_checkpoint load"},
    {"--log_every", "logging_steps log_interval"},
    {"--base_dtype", "load_in_4bit load_in_8bit bnb_4bit_quant_type"},
    {"--lora_rank", "lora_r use_lora"},
    {"--lora_rank (new adapters) or --init_adapter (a directory)", "adapter"},
    {"--init_adapter", "lora_model_dir adapter_name_or_path"},
    {"--loss_on (all or assistant)", "train_on_inputs assistant_only_loss"},
    {"--attention_backend", "attn_implementation attention"},
    {"--tensorboard (on by default; W&B, MLflow: tools/watch/follow.py)", "report_to"},
    {"tools/watch/follow.py --to=wandb", "wandb use_wandb"},
    {"--lora_modules_to_save", "modules_to_save"},
    {"--lora_rslora", "use_rslora peft_use_rslora"},
    {"--lora_dora", "use_dora peft_use_dora"},
    {"--lora_targets", "lora_target_modules"},
    {"--teacher", "teacher_model_name_or_path teacher_model"},
    {"--distill_alpha", "kd_alpha"},
    {"--distill_temperature", "kd_temperature"},
    {"--ema_decay", "use_ema"},
    {"--trace", "profile"},
};

// Stages of training in TRL, axolotl and LLaMA-Factory, as values of --objective. The records of
// --data decide whether next_token learns all of a text or what the assistant writes.
constexpr NamedElsewhere kObjectives[] = {
    {"next_token (the default): with chats, or prompts and completions, in --data it learns the "
     "answers",
     "sft instruct instruction_tuning finetune fine_tune fine_tuning chat"},
    {"next_token (the default): with text in --data it learns all of it",
     "cpt pt pretrain pretraining continued_pretraining completion clm causal_lm"},
    {"reward", "rm reward_model reward_modeling reward_trainer bradley_terry"},
    {"distill", "kd gkd gold distillation"},
    {"dpo", "preference preferences rlhf"},
    {"orpo, simpo or dpo, which learn from pairs of answers in --data", "cpo"},
};

}  // namespace

std::string ValueHint(absl::string_view option, absl::string_view value) {
  if (option == "objective") return DidYouMean(value, kObjectives, {});
  const bool is_path = value.find_first_of("./") != absl::string_view::npos;
  if (option != "chat_template" || !is_path) return "";
  return "; if that is a Jinja template, rename it so that it ends in .jinja";
}

std::string DidYouMean(absl::string_view unknown) {
  std::vector<std::string> options;
  for (const Option& option : AllOptions()) options.push_back(option.name);
  return DidYouMean(unknown, kElsewhere, options, "--");
}

}  // namespace zeroth
