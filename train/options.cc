// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/options.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/byte_count.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/activation_checkpointing.h"
#include "zeroth/optim/outlier_detector.h"
#include "zeroth/train/deterministic_batch.h"

namespace zeroth {
namespace {

template <typename T>
absl::Status Bad(const char* flag, T value, const char* expected) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, ": expected ", expected));
}

absl::Status AtLeast(const char* flag, int64_t value, int64_t least, const char* expected) {
  return value >= least ? absl::OkStatus() : Bad(flag, value, expected);
}

absl::Status NotNegative(const char* flag, double value) {
  return std::isfinite(value) && value >= 0 ? absl::OkStatus()
                                            : Bad(flag, value, "a finite number of at least 0");
}

absl::Status Fraction(const char* flag, double value) {
  return value >= 0 && value < 1 ? absl::OkStatus()
                                 : Bad(flag, value, "a number from 0 up to, but not including, 1");
}

absl::Status ValidateSizes(const TrainOptions& options) {
  const char* one = "at least 1";
  const char* zero = "at least 0";
  ZEROTH_RETURN_IF_ERROR(AtLeast("world_size", options.world_size, 0,
                                 "at least 1 rank, or 0 for as many as have been started"));
  ZEROTH_RETURN_IF_ERROR(AtLeast("shard_size", options.shard_size, 0,
                                 "0 (the strategy's default) or a number of ranks"));
  ZEROTH_RETURN_IF_ERROR(
      AtLeast("threads_per_rank", options.threads_per_rank, 0, "0 (share the cores) or more"));
  ZEROTH_RETURN_IF_ERROR(AtLeast("min_wrap_numel", options.min_wrap_numel, 0, zero));
  ZEROTH_RETURN_IF_ERROR(AtLeast("batch_size", options.batch_size, 1, one));
  ZEROTH_RETURN_IF_ERROR(AtLeast("global_batch_size", options.global_batch_size, 0,
                                 "0 (what --batch_size makes it) or a number of sequences"));
  if (options.global_batch_size > 0 && options.batch_size != TrainOptions().batch_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--global_batch_size=", options.global_batch_size, " and --batch_size=", options.batch_size,
        ": the one follows from the other; leave one out"));
  }
  ZEROTH_RETURN_IF_ERROR(AtLeast("grad_accum", options.grad_accum, 1, one));
  ZEROTH_RETURN_IF_ERROR(AtLeast("seq_len", options.seq_len, 1, one));
  ZEROTH_RETURN_IF_ERROR(AtLeast("steps", options.steps, 0, zero));
  ZEROTH_RETURN_IF_ERROR(AtLeast("warmup_steps", options.warmup_steps, 0, zero));
  ZEROTH_RETURN_IF_ERROR(
      AtLeast("eval_every", options.eval_every, 0, "0 (never) or a number of steps"));
  ZEROTH_RETURN_IF_ERROR(AtLeast("eval_batches", options.eval_batches, 1, one));
  ZEROTH_RETURN_IF_ERROR(
      AtLeast("sample_every", options.sample_every, 0, "0 (at the end only) or a number of steps"));
  ZEROTH_RETURN_IF_ERROR(AtLeast("sample_tokens", options.sample_tokens, 0, zero));
  ZEROTH_RETURN_IF_ERROR(AtLeast("log_every", options.log_every, 1, one));
  ZEROTH_RETURN_IF_ERROR(AtLeast("checkpoint_every", options.checkpoint_every, 0,
                                 "0 (no checkpoints) or a number of steps"));
  ZEROTH_RETURN_IF_ERROR(
      AtLeast("keep_last", options.keep_last, 0, "0 (all) or a number of checkpoints"));
  return AtLeast("keep_every", options.keep_every, 0, "0 (none) or a number of steps");
}

absl::Status ValidateNumbers(const TrainOptions& options) {
  ZEROTH_RETURN_IF_ERROR(NotNegative("lr", options.lr));
  if (options.min_lr != TrainOptions().min_lr) {
    ZEROTH_RETURN_IF_ERROR(NotNegative("min_lr", options.min_lr));
  }
  if (options.min_lr > options.lr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--min_lr=", options.min_lr, " and --lr=", options.lr,
        ": the learning rate would rise to its end; expected at most --lr, or leave --min_lr out: "
        "it is a tenth of --lr then"));
  }
  ZEROTH_RETURN_IF_ERROR(Fraction("beta1", options.beta1));
  ZEROTH_RETURN_IF_ERROR(Fraction("beta2", options.beta2));
  ZEROTH_RETURN_IF_ERROR(Fraction("ema_decay", options.ema_decay));
  ZEROTH_RETURN_IF_ERROR(NotNegative("eps", options.eps));
  ZEROTH_RETURN_IF_ERROR(NotNegative("weight_decay", options.weight_decay));
  ZEROTH_RETURN_IF_ERROR(NotNegative("clip_grad_norm", options.clip_grad_norm));
  return NotNegative("temperature", options.temperature);
}

absl::Status ValidateLora(const TrainOptions& options) {
  // Its rank is known once it is opened.
  const bool has_none = options.lora_rank == 0 && options.init_adapter.empty();
  ZEROTH_RETURN_IF_ERROR(
      AtLeast("lora_rank", options.lora_rank, 0, "0 (no adapters) or a rank of at least 1"));
  if (!std::isfinite(options.lora_alpha)) {
    return Bad("lora_alpha", options.lora_alpha, "a finite number");
  }
  ZEROTH_RETURN_IF_ERROR(NotNegative("lora_b_lr_scale", options.lora_b_lr_scale));
  if (has_none && options.lora_alpha != TrainOptions().lora_alpha) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--lora_alpha=", options.lora_alpha, " needs --lora_rank: there is nothing to scale"));
  }
  if (has_none && options.lora_b_lr_scale != TrainOptions().lora_b_lr_scale) {
    return absl::InvalidArgumentError(absl::StrCat("--lora_b_lr_scale=", options.lora_b_lr_scale,
                                                   " needs --lora_rank: there is no B"));
  }
  if (has_none && options.lora_targets != TrainOptions().lora_targets) {
    return absl::InvalidArgumentError(absl::StrCat("--lora_targets=", options.lora_targets,
                                                   " needs --lora_rank: give the adapters a rank"));
  }
  if (options.lora_export != "merged" && options.lora_export != "adapter" &&
      options.lora_export != "both") {
    return Bad("lora_export", options.lora_export, "merged, adapter or both");
  }
  if (has_none && options.lora_export != TrainOptions().lora_export) {
    return absl::InvalidArgumentError(absl::StrCat("--lora_export=", options.lora_export,
                                                   " needs --lora_rank: there are no adapters"));
  }
  for (const std::string& target : options.lora().targets) {
    if (target.empty()) {
      return Bad("lora_targets", options.lora_targets, "all, or names as q_proj,v_proj");
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateZScore(const char* flag, double limit, bool cuda_graphs) {
  if (!(limit >= 0) || limit >= OutlierDetector::LargestZScore()) {
    return Bad(flag, limit,
               absl::StrCat("0 (never) or a z-score that a step can exceed: below ",
                            OutlierDetector::LargestZScore())
                   .c_str());
  }
  if (limit > 0 && cuda_graphs) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, "=", limit,
                     " and --cuda_graphs: a graph has the update in it, so that nothing can be "
                     "decided before; leave one of them out"));
  }
  return absl::OkStatus();
}

absl::Status ValidateCheckpoints(const TrainOptions& options) {
  if (options.async_when_busy != "wait" && options.async_when_busy != "skip") {
    return Bad("async_when_busy", options.async_when_busy, "wait or skip");
  }
  if (options.async_checkpoint && options.checkpoint_every == 0) {
    return absl::InvalidArgumentError(
        "--async_checkpoint needs --checkpoint_every: say how often to save");
  }
  if (options.async_when_busy == "skip" && !options.async_checkpoint) {
    return absl::InvalidArgumentError(
        "--async_when_busy=skip needs --async_checkpoint: otherwise training waits for every save");
  }
  if (options.allow_partial && options.resume.empty()) {
    return absl::InvalidArgumentError(
        "--allow_partial needs --resume: say what to load as far as it fits");
  }
  return absl::OkStatus();
}

// What would make the bits depend on the ranks after all.
absl::Status ValidateDeterministicBatch(const TrainOptions& options) {
  ZEROTH_RETURN_IF_ERROR(AtLeast("deterministic_batch", options.deterministic_batch, 0,
                                 "0 (none) or a number of micro-batches"));
  if (options.deterministic_batch == 0) return absl::OkStatus();
  const auto conflict = [&](absl::string_view flag, absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--deterministic_batch=", options.deterministic_batch, " and ", flag, ": ", why));
  };
  if (options.grad_sync != "every") {
    return conflict("--grad_sync=last", "every micro-batch is reduced by itself; leave it out");
  }
  if (options.grad_accum_dtype != "fp32") {
    return conflict("--grad_accum_dtype",
                    "sums over micro-batches are made in fp32, and rounded once; leave it out");
  }
  if (options.quantized_weights || options.quantized_gradients) {
    return conflict("--quantized_weights or --quantized_gradients",
                    "what shares an int8 scale depends on where shards begin; leave one of them "
                    "out");
  }
  if (options.reduction != "tree") {
    return conflict("--reduction=nccl", "its order depends on the ranks; leave it out");
  }
  if (options.gradient_divide_factor != 0) {
    return conflict("--gradient_divide_factor",
                    "gradients are divided by the number of micro-batches; leave it out");
  }
  return absl::OkStatus();
}

absl::Status ValidateAttentionBackend(const TrainOptions& options) {
  const std::string& backend = options.attention_backend;
  if (backend != "auto" && backend != "cudnn" && backend != "flash") {
    return Bad("attention_backend", backend, "auto, cudnn or flash");
  }
  if (backend == "cudnn" && options.param_dtype == "fp32") {
    return absl::InvalidArgumentError(
        "--attention_backend=cudnn and --param_dtype=fp32: cuDNN has no attention in fp32; take "
        "--param_dtype=bf16 or another --attention_backend");
  }
  return absl::OkStatus();
}

absl::Status ValidatePrecision(const TrainOptions& options) {
  if (options.fp32_precision != "ieee" && options.fp32_precision != "tf32") {
    return Bad("fp32_precision", options.fp32_precision, "ieee or tf32");
  }
  if (options.fp32_precision == "tf32" && options.param_dtype != "fp32") {
    return absl::InvalidArgumentError(
        absl::StrCat("--fp32_precision=tf32 and --param_dtype=", options.param_dtype,
                     ": no product is made of fp32 operands then; leave one of them out"));
  }
  if (options.fp8 != "none" && options.fp8 != "tensorwise") {
    return Bad("fp8", options.fp8, "none or tensorwise");
  }
  if (options.fp8 != "none" && options.param_dtype == "fp32") {
    return absl::InvalidArgumentError(
        absl::StrCat("--fp8=", options.fp8,
                     " and --param_dtype=fp32: products of 8-bit floats give 16 bits; take "
                     "--param_dtype=bf16"));
  }
  return absl::OkStatus();
}

absl::Status ValidateDType(const char* flag, const std::string& value) {
  if (value == "fp32" || value == "bf16" || value == "fp16") return absl::OkStatus();
  return Bad(flag, value, "fp32, bf16 or fp16");
}

}  // namespace

absl::Status Validate(const TrainOptions& options) {
  if (options.data.empty()) {
    return absl::InvalidArgumentError(
        "--data is missing: give a text file, a directory, a glob, or token files (.npy, .bin); "
        "for a first try, "
        "--data=README.md");
  }
  if (options.overwrite && options.out.empty()) {
    return absl::InvalidArgumentError(
        "--overwrite needs --out: without it every run has a new directory");
  }
  if (options.overwrite && !options.resume.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--overwrite and --resume=", options.resume,
        ": one removes what an earlier run left in --out, the other goes on from it; leave one of "
        "them out"));
  }
  if (!options.init_from.empty() && !options.model.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--model=", options.model, " and --init_from=", options.init_from,
        " both say what the model is; leave --model out to take it from the directory"));
  }
  if (options.eval_every > 0 && options.eval_data.empty()) {
    return absl::InvalidArgumentError("--eval_every needs --eval_data: say on what to evaluate");
  }
  if (!ParseTimeout(options.comm_timeout).ok()) {
    return Bad("comm_timeout", options.comm_timeout, "a positive duration, as 90s or 10m");
  }
  if (options.reduction != "tree" && options.reduction != "nccl") {
    return Bad("reduction", options.reduction, "tree or nccl");
  }
  if (options.nccl_copy_engine != "auto" && options.nccl_copy_engine != "on" &&
      options.nccl_copy_engine != "off") {
    return Bad("nccl_copy_engine", options.nccl_copy_engine, "auto, on or off");
  }
  if (options.nccl_copy_engine == "on" && options.comm != "nccl" &&
      options.comm != TrainOptions().comm) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--nccl_copy_engine=on, but --comm=", options.comm, ", which has none; take --comm=nccl"));
  }
  if (const auto parsed = ParseActivationCheckpointing(options.activation_checkpointing);
      !parsed.ok()) {
    return Bad("activation_checkpointing", options.activation_checkpointing,
               "none, block, attention or mlp");
  }
  if (options.cuda_graphs && !options.trace.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--trace=", options.trace,
                     " and --cuda_graphs: a timeline is of work that is enqueued piece by piece, "
                     "and a graph is one piece; trace a run without graphs"));
  }
  if (options.on_nonfinite != "stop" && options.on_nonfinite != "skip") {
    return Bad("on_nonfinite", options.on_nonfinite, "stop or skip");
  }
  if (!ParseByteCount(options.memory_limit).ok()) {
    return Bad("memory_limit", options.memory_limit, "0 (none) or a size as 500MiB or 2GiB");
  }
  if (const absl::StatusOr<OffloadOptions> parsed = ParseOffload(options.offload); !parsed.ok()) {
    return Bad("offload", options.offload,
               "none, all, or a list of parameters, gradients and optimizer");
  } else if (!parsed->any() && !options.offload_dir.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--offload_dir=", options.offload_dir,
                                                   " without --offload: nothing is offloaded"));
  }
  if (options.grad_sync != "every" && options.grad_sync != "last") {
    return Bad("grad_sync", options.grad_sync, "every or last");
  }
  ZEROTH_RETURN_IF_ERROR(ValidateDType("param_dtype", options.param_dtype));
  ZEROTH_RETURN_IF_ERROR(ValidateDType("reduce_dtype", options.reduce_dtype));
  ZEROTH_RETURN_IF_ERROR(ValidateDType("grad_accum_dtype", options.grad_accum_dtype));
  if (options.master_dtype != "fp32" && options.master_dtype != "bf16") {
    return Bad("master_dtype", options.master_dtype, "fp32 or bf16");
  }
  ZEROTH_RETURN_IF_ERROR_WITH(ValidateMixedPrecision(options.mixed_precision()),
                              "--param_dtype, --reduce_dtype, --grad_accum_dtype and "
                              "--master_dtype");
  ZEROTH_RETURN_IF_ERROR(ValidatePrecision(options));
  ZEROTH_RETURN_IF_ERROR(ValidateAttentionBackend(options));
  ZEROTH_RETURN_IF_ERROR(options.moment_dtype().status());
  ZEROTH_RETURN_IF_ERROR(options.loss_scaler().status());
  ZEROTH_RETURN_IF_ERROR(options.strategy_options().status());
  ZEROTH_RETURN_IF_ERROR(options.scheduler_options().status());
  ZEROTH_RETURN_IF_ERROR(AtLeast("limit_all_gathers", options.limit_all_gathers, 1, "at least 1"));
  ZEROTH_RETURN_IF_ERROR(NotNegative("gradient_divide_factor", options.gradient_divide_factor));
  if (options.layout != "flat" && options.layout != "rows") {
    return Bad("layout", options.layout, "flat or rows");
  }
  if (options.layout == "rows" && options.optimizer_state_dtype == "int8") {
    return absl::InvalidArgumentError(
        "--layout=rows and --optimizer_state_dtype=int8: 8-bit moments share scales in blocks, "
        "which rows would cut; take --layout=flat, or moments in bf16");
  }
  if (options.ema_decay > 0 && options.master_dtype != "fp32") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--ema_decay=", options.ema_decay, " and --master_dtype=", options.master_dtype,
        ": an average in less than fp32 would stand still; take "
        "--master_dtype=fp32"));
  }
  ZEROTH_RETURN_IF_ERROR(ValidateLora(options));
  if (options.export_dtype != "fp32" && options.export_dtype != "bf16") {
    return Bad(
        "export_dtype", options.export_dtype,
        "fp32 or bf16; //tools/convert makes fp16, which cannot hold every weight, of either");
  }
  if (!ParseByteCount(options.max_shard_size).ok()) {
    return Bad("max_shard_size", options.max_shard_size,
               "a number of bytes, as 5GB or 0: one file");
  }
  ZEROTH_RETURN_IF_ERROR(ValidateCheckpoints(options));
  ZEROTH_RETURN_IF_ERROR(ValidateDeterministicBatch(options));
  ZEROTH_RETURN_IF_ERROR(
      ValidateZScore("skip_loss_zscore", options.skip_loss_zscore, options.cuda_graphs));
  ZEROTH_RETURN_IF_ERROR(
      ValidateZScore("skip_grad_norm_zscore", options.skip_grad_norm_zscore, options.cuda_graphs));
  ZEROTH_RETURN_IF_ERROR(ValidateSizes(options));
  return ValidateNumbers(options);
}

absl::StatusOr<TrainOptions> WithDeterministicBatch(TrainOptions options) {
  if (options.deterministic_batch == 0) return options;
  const absl::StatusOr<int64_t> each =
      MicroBatchesPerRank(options.deterministic_batch, options.world_size);
  ZEROTH_RETURN_IF_ERROR_WITH(each.status(), "--deterministic_batch and --world_size");
  if (options.grad_accum != TrainOptions().grad_accum && options.grad_accum != *each) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--grad_accum=", options.grad_accum,
        ": --deterministic_batch=", options.deterministic_batch, " over ", options.world_size,
        " ranks is ", *each, " micro-batches on each; leave --grad_accum out"));
  }
  options.grad_accum = *each;
  return options;
}

absl::StatusOr<absl::Duration> ParseTimeout(absl::string_view text) {
  absl::Duration timeout;
  if (absl::ParseDuration(text, &timeout) && timeout > absl::ZeroDuration()) return timeout;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is no positive duration; expected one as 90s or 10m"));
}

KernelOptions TrainOptions::kernel_options() const {
  KernelOptions kernels;
  if (fp32_precision == "tf32") kernels.fp32_precision = Fp32Precision::kTf32;
  kernels.allow_slow_kernels = allow_slow_kernels;
  if (attention_backend == "cudnn") kernels.attention = AttentionBackend::kCudnn;
  if (attention_backend == "flash") kernels.attention = AttentionBackend::kFlash;
  return kernels;
}

LoraOptions TrainOptions::lora() const {
  LoraOptions lora;
  lora.rank = lora_rank;
  lora.alpha = lora_alpha;
  if (lora_targets != "all") {
    for (const absl::string_view target : absl::StrSplit(lora_targets, ',')) {
      lora.targets.emplace_back(absl::StripAsciiWhitespace(target));
    }
  }
  return lora;
}

absl::StatusOr<OffloadOptions> ParseOffload(absl::string_view text) {
  OffloadOptions offload;
  if (text == "none") return offload;
  if (text == "all") text = "parameters,gradients,optimizer";
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    bool* const kind = part == "parameters"  ? &offload.parameters
                       : part == "gradients" ? &offload.gradients
                       : part == "optimizer" ? &offload.optimizer
                                             : nullptr;
    if (kind == nullptr || *kind) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", part, "' in '", text,
          "': expected parameters, gradients or optimizer, each once, or none or all"));
    }
    *kind = true;
  }
  return offload;
}

OffloadOptions TrainOptions::offload_options() const {
  OffloadOptions options = *ParseOffload(offload);
  options.directory = offload_dir;
  return options;
}

absl::StatusOr<StrategyOptions> TrainOptions::strategy_options() const {
  StrategyOptions strategy_options;
  strategy_options.shard_size = shard_size;
  strategy_options.shard_optimizer_over_world = shard_optimizer_over_world;
  strategy_options.gradient_divide_factor = gradient_divide_factor;
  int group = 0;
  if (reshard_after_forward == "false") {
    strategy_options.reshard_after_forward = false;
  } else if (absl::SimpleAtoi(reshard_after_forward, &group) && group > 0) {
    strategy_options.post_forward_shard_size = group;
  } else if (reshard_after_forward != "true") {
    return Bad("reshard_after_forward", reshard_after_forward,
               "true, false, or the ranks of the group to reshard to");
  }
  return strategy_options;
}

absl::StatusOr<SchedulerOptions> TrainOptions::scheduler_options() const {
  SchedulerOptions scheduler;
  scheduler.prefetch = prefetch;
  scheduler.gather_buffers = limit_all_gathers;
  if (backward_prefetch == "post") {
    scheduler.backward_prefetch = BackwardPrefetch::kPost;
  } else if (backward_prefetch == "none") {
    scheduler.backward_prefetch = BackwardPrefetch::kNone;
  } else if (backward_prefetch != "pre") {
    return Bad("backward_prefetch", backward_prefetch, "pre, post or none");
  }
  return scheduler;
}

MixedPrecision TrainOptions::mixed_precision() const {
  MixedPrecision precision = {*ParseDType(param_dtype), *ParseDType(reduce_dtype),
                              *ParseDType(master_dtype)};
  precision.keep_low_precision_grads = keep_low_precision_grads;
  precision.grad_accum_dtype = *ParseDType(grad_accum_dtype);
  return precision;
}

absl::StatusOr<DType> TrainOptions::moment_dtype() const {
  if (optimizer_state_dtype == "fp32") return DType::kFloat32;
  if (optimizer_state_dtype == "bf16") return DType::kBFloat16;
  if (optimizer_state_dtype == "int8") return DType::kUInt8;
  return Bad("optimizer_state_dtype", optimizer_state_dtype, "fp32, bf16 or int8");
}

absl::StatusOr<std::optional<LossScalerOptions>> TrainOptions::loss_scaler() const {
  LossScalerOptions scaler;
  scaler.growth_interval = loss_scale_growth_interval;
  const bool scales_by_itself =
      loss_scale == "auto" && (param_dtype == "fp16" || reduce_dtype == "fp16");
  if (loss_scale != "dynamic" && !scales_by_itself &&
      loss_scale_growth_interval != TrainOptions().loss_scale_growth_interval) {
    return absl::InvalidArgumentError(
        absl::StrCat("--loss_scale_growth_interval=", loss_scale_growth_interval,
                     " needs a dynamic loss scale: --loss_scale=dynamic, or fp16"));
  }
  if (loss_scale == "auto") {
    if (!scales_by_itself) return std::nullopt;
  } else if (loss_scale != "dynamic") {
    scaler.dynamic = false;
    if (!absl::SimpleAtod(loss_scale, &scaler.initial_scale)) {
      return Bad("loss_scale", loss_scale, "auto, dynamic, or a power of two that stays");
    }
  }
  ZEROTH_RETURN_IF_ERROR_WITH(
      ValidateLossScalerOptions(scaler),
      absl::StrCat("--loss_scale=", loss_scale,
                   ", --loss_scale_growth_interval=", loss_scale_growth_interval));
  return scaler;
}

int ThreadsPerRank(const TrainOptions& options) {
  if (options.threads_per_rank > 0) return options.threads_per_rank;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int ranks = options.local_world_size > 0 ? options.local_world_size : options.world_size;
  return std::max(1, cores / std::max(1, ranks));
}

}  // namespace zeroth
