// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/options.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/train/deterministic_batch.h"
#include "zeroth/train/option_registry.h"

namespace zeroth {
namespace {

std::string AsFlag(const Option& option, const TrainOptions& options) {
  return absl::StrCat("--", option.name, "=", OptionText(option, options));
}

// What adapters are told, where there are none.
absl::Status ValidateLora(const TrainOptions& options) {
  // The rank of those of --init_adapter is known once it is opened.
  if (options.lora_rank > 0 || !options.init_adapter.empty()) return absl::OkStatus();
  const TrainOptions defaults;
  for (const char* name : {"lora_alpha", "lora_targets", "lora_b_lr_scale", "lora_export"}) {
    const Option& option = *FindOption(name);
    if (OptionValue(option, options) == OptionValue(option, defaults)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        AsFlag(option, options), " needs --lora_rank: there are no adapters without a rank"));
  }
  return absl::OkStatus();
}

absl::Status ValidateCheckpoints(const TrainOptions& options) {
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

absl::Status ValidatePrecision(const TrainOptions& options) {
  ZEROTH_RETURN_IF_ERROR_WITH(ValidateMixedPrecision(options.mixed_precision()),
                              "--param_dtype, --reduce_dtype, --grad_accum_dtype and "
                              "--master_dtype");
  const bool fp32 = options.param_dtype == "fp32";
  if (options.fp32_precision == "tf32" && !fp32) {
    return absl::InvalidArgumentError(
        absl::StrCat("--fp32_precision=tf32 and --param_dtype=", options.param_dtype,
                     ": no product is made of fp32 operands then; leave one of them out"));
  }
  if (options.fp8 != "none" && fp32) {
    return absl::InvalidArgumentError(
        absl::StrCat("--fp8=", options.fp8,
                     " and --param_dtype=fp32: products of 8-bit floats give 16 bits; take "
                     "--param_dtype=bf16"));
  }
  if (options.attention_backend == "cudnn" && fp32) {
    return absl::InvalidArgumentError(
        "--attention_backend=cudnn and --param_dtype=fp32: cuDNN has no attention in fp32; take "
        "--param_dtype=bf16 or another --attention_backend");
  }
  if (options.layout == "rows" && options.optimizer_state_dtype == "float8_block") {
    return absl::InvalidArgumentError(
        "--layout=rows and --optimizer_state_dtype=float8_block: 8-bit moments share scales in "
        "blocks, which rows would cut; take --layout=flat, or moments in bf16");
  }
  if (options.ema_decay > 0 && options.master_dtype != "fp32") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--ema_decay=", options.ema_decay, " and --master_dtype=", options.master_dtype,
        ": an average in less than fp32 would stand still; take --master_dtype=fp32"));
  }
  return options.loss_scaler().status();
}

// What a recorded step cannot do.
absl::Status ValidateCudaGraphs(const TrainOptions& options) {
  if (!options.cuda_graphs) return absl::OkStatus();
  if (!options.trace.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--trace=", options.trace,
                     " and --cuda_graphs: a timeline is of work that is enqueued piece by piece, "
                     "and a graph is one piece; trace a run without graphs"));
  }
  for (const char* name : {"skip_loss_zscore", "skip_grad_norm_zscore"}) {
    const Option& option = *FindOption(name);
    if (OptionValue(option, options) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(AsFlag(option, options),
                     " and --cuda_graphs: a graph has the update in it, so that nothing can be "
                     "decided before; leave one of them out"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const TrainOptions& options) {
  if (options.data.empty()) {
    return absl::InvalidArgumentError(
        "--data is missing: give a text file, a directory, a glob, or token files (.npy, .bin); "
        "for a first try, --data=README.md");
  }
  for (const Option& option : AllOptions()) {
    ZEROTH_RETURN_IF_ERROR_WITH(CheckOption(option, options), AsFlag(option, options));
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
  if (options.nccl_copy_engine == "on" && options.comm != "nccl" &&
      options.comm != TrainOptions().comm) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--nccl_copy_engine=on, but --comm=", options.comm, ", which has none; take --comm=nccl"));
  }
  if (options.offload == "none" && !options.offload_dir.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--offload_dir=", options.offload_dir,
                                                   " without --offload: nothing is offloaded"));
  }
  if (options.min_lr > options.lr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--min_lr=", options.min_lr, " and --lr=", options.lr,
        ": the learning rate would rise to its end; expected at most --lr, or leave --min_lr out: "
        "it is a tenth of --lr then"));
  }
  ZEROTH_RETURN_IF_ERROR(ValidatePrecision(options));
  ZEROTH_RETURN_IF_ERROR(ValidateCudaGraphs(options));
  ZEROTH_RETURN_IF_ERROR(ValidateLora(options));
  ZEROTH_RETURN_IF_ERROR(ValidateCheckpoints(options));
  return ValidateDeterministicBatch(options);
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

StrategyOptions TrainOptions::strategy_options() const {
  StrategyOptions strategy_options;
  strategy_options.shard_size = shard_size;
  strategy_options.shard_optimizer_over_world = shard_optimizer_over_world;
  strategy_options.gradient_divide_factor = gradient_divide_factor;
  strategy_options.reshard_after_forward = reshard_after_forward != "false";
  int group = 0;
  if (absl::SimpleAtoi(reshard_after_forward, &group)) {
    strategy_options.post_forward_shard_size = group;
  }
  return strategy_options;
}

SchedulerOptions TrainOptions::scheduler_options() const {
  SchedulerOptions scheduler;
  scheduler.prefetch = prefetch;
  scheduler.gather_buffers = gather_buffers;
  if (backward_prefetch == "post") scheduler.backward_prefetch = BackwardPrefetch::kPost;
  if (backward_prefetch == "none") scheduler.backward_prefetch = BackwardPrefetch::kNone;
  return scheduler;
}

MixedPrecision TrainOptions::mixed_precision() const {
  MixedPrecision precision = {*ParseDType(param_dtype), *ParseDType(reduce_dtype),
                              *ParseDType(master_dtype)};
  precision.keep_low_precision_grads = keep_low_precision_grads;
  precision.grad_accum_dtype = *ParseDType(grad_accum_dtype);
  return precision;
}

DType TrainOptions::moment_dtype() const {
  return optimizer_state_dtype == "float8_block" ? DType::kUInt8
                                                 : *ParseDType(optimizer_state_dtype);
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
    ZEROTH_CHECK(absl::SimpleAtod(loss_scale, &scaler.initial_scale));
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
