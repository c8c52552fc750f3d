// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/options/options.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "zeroth/api/rank.h"
#include "zeroth/api/step_inputs.h"
#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/options/objective.h"
#include "zeroth/options/option_registry.h"

namespace zeroth {
namespace {

// Returns "--lr=0.1", or "--overwrite" for an option that is true or false.
std::string AsFlag(absl::string_view name, const TrainOptions& options) {
  const Option& option = *FindOption(name);
  if (std::holds_alternative<bool TrainOptions::*>(option.field)) return absl::StrCat("--", name);
  return absl::StrCat("--", name, "=", OptionText(option, options));
}

// Refuses options that exclude each other or lack an option that they need.
absl::Status CheckTogether(const TrainOptions& o) {
  absl::Status status;
  const auto refuse = [&](bool conflict, absl::string_view names, absl::string_view why) {
    if (!conflict || !status.ok()) return;
    std::vector<std::string> flags;
    for (const absl::string_view name : absl::StrSplit(names, ' ')) {
      flags.push_back(AsFlag(name, o));
    }
    status = InvalidArgument(absl::StrJoin(flags, " and "), flags.size() > 1 ? ": " : " ", why);
  };
  const TrainOptions defaults;
  // Refuses any option with this prefix that has another value than its default.
  const auto refuse_group = [&](bool lacking, absl::string_view prefix, absl::string_view why) {
    for (const Option& option : AllOptions()) {
      refuse(lacking && absl::StartsWith(option.name, prefix) &&
                 OptionText(option, o) != OptionText(option, defaults),
             option.name, why);
    }
  };
  refuse(o.overwrite && o.out.empty(), "overwrite",
         "needs --out: without it every run has a new directory");
  refuse(o.epochs > 0 && o.steps != defaults.steps, "epochs steps",
         "the one follows from the other; leave one of them out");
  refuse(o.dry_run && o.steps == 0, "dry_run steps",
         "without steps there is nothing to plan; leave one of them out");
  refuse(o.dry_run && o.device != defaults.device && o.machine.empty(), "dry_run device",
         "say which GPUs: --machine=H100, another by name, or a file that describes it");
  refuse(
      o.overwrite && !o.resume.empty(), "overwrite resume",
      "--overwrite deletes the earlier run in --out, --resume continues it; leave one of them out");
  refuse(!o.init_from.empty() && !o.model.empty(), "model init_from",
         "both say what the model is; leave --model out to use that of the directory");
  refuse(o.eval_every > 0 && o.eval_data.empty() && o.eval_fraction == 0, "eval_every",
         "needs --eval_data or --eval_fraction: say on what to evaluate");
  refuse(!o.eval_data.empty() && o.eval_fraction > 0, "eval_data eval_fraction",
         "both say on what to evaluate; leave one of them out");
  refuse(o.nccl_copy_engine == NcclCopyEngine::kOn && o.comm != "nccl" && o.comm != defaults.comm,
         "nccl_copy_engine comm", "only NCCL gathers by copy engines; use --comm=nccl");
  refuse(o.offload == "none" && !o.offload_dir.empty(), "offload_dir",
         "without --offload: nothing is offloaded");
  refuse(o.min_lr > o.peak_lr(), "min_lr lr",
         absl::StrCat("the learning rate would rise from ", o.peak_lr(),
                      " to its end; expected at most that, or leave --min_lr out: it is a tenth of "
                      "--lr then"));
  refuse(o.min_lr >= 0 && o.lr_schedule == "constant", "min_lr lr_schedule",
         "a constant rate has no other end; leave one of them out");
  refuse(o.warmup_ratio > 0 && o.warmup_steps != defaults.warmup_steps, "warmup_ratio warmup_steps",
         "the one follows from the other; leave one of them out");
  refuse(o.decay_ratio == 0, "decay_ratio", "expected a part of the run above 0 and below 1");
  const bool decays =
      o.lr_schedule != "constant" && o.lr_schedule != "linear" && o.lr_schedule != "cosine";
  refuse(o.decay_ratio != defaults.decay_ratio && !decays, "decay_ratio lr_schedule",
         "this schedule does not decay over the end of the run; use --lr_schedule=wsd, or leave "
         "--decay_ratio out");
  refuse(o.parse_special && o.tokenizer == "byte", "parse_special tokenizer",
         "bytes have no special tokens; leave one of them out");
  refuse(!o.new_tokens.empty() && o.tokenizer == "byte", "new_tokens tokenizer",
         "bytes get no new tokens; leave one of them out");
  refuse(!o.new_tokens.empty() && !o.init_adapter.empty(), "new_tokens init_adapter",
         "the adapter's rows are of the tokens that it was trained with; leave one of them out");
  refuse(!o.new_tokens.empty() && o.lora_export != LoraExport::kMerged, "new_tokens lora_export",
         "an adapter with new tokens fits no base model; use --lora_export=merged");
  refuse(o.lora_export == LoraExport::kAdapter && o.max_shard_size != defaults.max_shard_size,
         "max_shard_size lora_export", "an adapter is one file; leave one of them out");
  refuse(o.async_checkpoint && o.checkpoint_every == 0, "async_checkpoint",
         "needs --checkpoint_every: say how often to save");
  refuse(o.async_when_busy == AsyncWhenBusy::kSkip && !o.async_checkpoint, "async_when_busy",
         "needs --async_checkpoint: otherwise training waits for every save");
  for (const char* const keep : {"keep_last", "keep_every"}) {
    refuse_group(o.checkpoint_every == 0, keep,
                 "needs --checkpoint_every: there are no checkpoints to keep");
  }
  refuse(o.allow_partial && o.resume.empty(), "allow_partial",
         "needs --resume: say what to load as far as it fits");

  const bool fp32 = o.param_dtype == DType::kFloat32;
  refuse(o.fp32_precision == Fp32Precision::kTf32 && !fp32, "fp32_precision param_dtype",
         "no matmul has fp32 operands then; leave one of them out");
  refuse(o.fp8 != Fp8Recipe::kNone && fp32, "fp8 param_dtype",
         "matmuls of 8-bit floats give 16 bits; use --param_dtype=bf16");
  refuse(o.attention_backend == AttentionBackend::kCudnn && fp32, "attention_backend param_dtype",
         "cuDNN has no attention in fp32; use --param_dtype=bf16 or another --attention_backend");
  const bool any_order = o.attention_determinism == AttentionDeterminism::kOff;
  refuse(any_order && fp32, "attention_determinism param_dtype",
         "cuDNN has no attention in fp32, and Zeroth's is deterministic; use --param_dtype=bf16");
  refuse(any_order && o.attention_backend == AttentionBackend::kFlash,
         "attention_determinism attention_backend",
         "Zeroth's own attention is always deterministic; leave one of them out");
  refuse(o.layout == LayoutKind::kRows && o.optimizer_state_dtype == DType::kUInt8,
         "layout optimizer_state_dtype",
         "8-bit moments share scales in blocks, which rows would divide; use --layout=flat, or "
         "moments in bf16");
  refuse(o.ema_decay > 0 && o.master_dtype != DType::kFloat32, "ema_decay master_dtype",
         "an average in less than fp32 would stand still; use --master_dtype=fp32");

  refuse(o.cuda_graphs && !o.trace.empty(), "trace cuda_graphs",
         "a timeline is of work that is enqueued piece by piece, and a graph is one piece; trace a "
         "run without graphs");
  refuse(o.lora_dora && o.lora_dropout > 0, "lora_dora lora_dropout",
         "DoRA's norms are those of the whole weight; leave one of them out");
  constexpr char kGraph[] =
      "a graph has the update in it, so that nothing can be decided before; leave one of them out";
  refuse(o.cuda_graphs && o.lora_dropout > 0, "lora_dropout cuda_graphs",
         "a graph would repeat the draws of one step; leave one of them out");
  refuse(o.cuda_graphs && o.skip_loss_zscore > 0, "skip_loss_zscore cuda_graphs", kGraph);
  refuse(o.cuda_graphs && o.skip_grad_norm_zscore > 0, "skip_grad_norm_zscore cuda_graphs", kGraph);

  refuse_group(o.on_nonfinite != OnNonfinite::kSkip, "max_nonfinite_steps",
               "needs --on_nonfinite=skip: otherwise the first such step ends the run");
  // The rank of the adapters of --init_adapter is known once it is opened.
  const bool has_none = o.lora_rank == 0 && o.init_adapter.empty();
  refuse_group(has_none, "lora_", "needs --lora_rank: there are no adapters without a rank");

  refuse(o.router_bias_rate > 0 && !has_none, "router_bias_rate lora_rank",
         "LoRA freezes the model, and an adapter has no router biases; leave one of them out");
  const bool packs = o.base_dtype != BaseDtype::kNone;
  refuse(packs && has_none, "base_dtype",
         "needs --lora_rank: weights in few bits are not trained, only adapters beside them");
  refuse(packs && o.lora_dora, "base_dtype lora_dora",
         "DoRA's norms are those of weights in full; leave one of them out");
  refuse(packs && o.fp8 != Fp8Recipe::kNone, "base_dtype fp8", "leave one of them out");

  const bool has_muon = o.optimizer == "muon";
  refuse_group(!has_muon, "muon_", "needs --optimizer=muon");
  refuse(has_muon && o.offload != "none", "optimizer offload",
         "Muon works on state in memory; leave one of them out");
  refuse(has_muon && o.master_dtype != DType::kFloat32, "optimizer master_dtype",
         "Muon updates masters in fp32; use --master_dtype=fp32");
  refuse(has_muon && o.muon_lr > 0 && o.lr == 0, "muon_lr lr",
         "Muon's rate follows the schedule of --lr; expected one above 0");

  // These are not implemented for layers that are divided among ranks.
  const bool divided = o.tensor().enabled();
  const char* const tensor = o.tensor_parallel > 1 ? "tensor_parallel" : "deterministic_tensor";
  const auto refuse_divided = [&](bool conflict, absl::string_view names) {
    refuse(divided && conflict, absl::StrCat(tensor, " ", names),
           "this does not work on layers that are divided among ranks; leave one of them out");
  };
  refuse_divided(o.fp8 != Fp8Recipe::kNone, "fp8");
  refuse_divided(o.cuda_graphs, "cuda_graphs");
  refuse(o.sequence_parallel && o.tensor_parallel == 1, "sequence_parallel",
         "needs --tensor_parallel: sequences are shared by the ranks that share layers");
  refuse(o.sequence_parallel && o.seq_len % o.tensor_parallel != 0,
         "sequence_parallel seq_len tensor_parallel",
         "sequences are divided among the ranks that share a layer; expected --seq_len a "
         "multiple of --tensor_parallel");
  refuse(o.deterministic_tensor > 0 && o.reduction != Reduction::kTree,
         "deterministic_tensor reduction", "its order depends on the ranks; leave --reduction out");

  // These would make the bits depend on the number of ranks.
  const bool fixed = o.deterministic_batch > 0;
  refuse(fixed && o.grad_sync != GradSync::kEvery, "deterministic_batch grad_sync",
         "every micro-batch is reduced by itself; leave --grad_sync out");
  refuse(fixed && o.grad_accum_dtype != DType::kFloat32, "deterministic_batch grad_accum_dtype",
         "sums over micro-batches are made in fp32, and rounded once; leave the type out");
  constexpr char kScales[] =
      "what shares an int8 scale depends on where shards begin; leave one of them out";
  for (const bool batch : {true, false}) {
    const absl::string_view bits = batch ? "deterministic_batch" : "deterministic_tensor";
    const bool promised = batch ? fixed : o.deterministic_tensor > 0;
    refuse(promised && any_order, absl::StrCat(bits, " attention_determinism"),
           "the first promises bits that the second gives up; leave one of them out");
    refuse(promised && o.quantized_weights, absl::StrCat(bits, " quantized_weights"), kScales);
    refuse(promised && o.quantized_gradients, absl::StrCat(bits, " quantized_gradients"), kScales);
  }
  refuse(fixed && o.reduction != Reduction::kTree, "deterministic_batch reduction",
         "its order depends on the ranks; leave --reduction out");
  refuse(fixed && o.gradient_divide_factor != 0, "deterministic_batch gradient_divide_factor",
         "gradients are divided by the number of micro-batches; leave the factor out");
  return status;
}

}  // namespace

absl::Status Validate(const TrainOptions& options) {
  if (options.data.empty()) {
    return absl::InvalidArgumentError(
        "--data is missing: give a text file, a directory, a glob, or token files (.npy, .bin); "
        "for a first try, --data=README.md");
  }
  for (const Option& option : AllOptions()) {
    ZEROTH_RETURN_IF_ERROR_WITH(CheckOption(option, options), AsFlag(option.name, options));
    const std::string text = OptionText(option, options);
    if (ValidUtf8Length(text) != text.size()) {
      return InvalidArgument(AsFlag(option.name, options),
                             ": is not UTF-8, so config.toml could not repeat the run; rename the "
                             "file, or name it by its directory or a glob");
    }
  }
  ZEROTH_RETURN_IF_ERROR(CheckTogether(options));
  ZEROTH_RETURN_IF_ERROR(CheckObjective(options));
  ZEROTH_RETURN_IF_ERROR_WITH(ValidateTensorParallel(options.tensor()),
                              "--tensor_parallel, --deterministic_tensor and --sequence_parallel");
  ZEROTH_RETURN_IF_ERROR_WITH(ValidateMixedPrecision(options.mixed_precision()),
                              "--param_dtype, --reduce_dtype, --grad_accum_dtype and "
                              "--master_dtype");
  return options.loss_scaler().status();
}

int64_t SequencesPerStep(const TrainOptions& options) {
  return options.batch_size * options.grad_accum * options.data_ranks();
}

absl::StatusOr<TrainOptions> WithSharesOfRanks(TrainOptions options) {
  if (options.world_size % options.tensor_parallel != 0) {
    return InvalidArgument("--tensor_parallel=", options.tensor_parallel, " does not divide the ",
                           options.world_size,
                           " ranks of the run; use a divisor, or another --world_size");
  }
  const TrainOptions unset;
  if (options.deterministic_batch > 0) {
    const absl::StatusOr<int64_t> each =
        MicroBatchesPerRank(options.deterministic_batch, options.data_ranks());
    ZEROTH_RETURN_IF_ERROR_WITH(each.status(), options.tensor_parallel == 1
                                                   ? "--deterministic_batch and --world_size"
                                                   : "--deterministic_batch and --world_size over "
                                                     "--tensor_parallel");
    if (options.grad_accum != unset.grad_accum && options.grad_accum != *each) {
      return InvalidArgument("--grad_accum=", options.grad_accum,
                             ": --deterministic_batch=", options.deterministic_batch, " over ",
                             options.data_ranks(), " ranks is ", *each,
                             " micro-batches on each; leave --grad_accum out");
    }
    options.grad_accum = *each;
  }
  if (options.global_batch_size == 0) return options;
  const int64_t micro_batches = options.grad_accum * options.data_ranks();
  if (options.global_batch_size % micro_batches != 0) {
    return InvalidArgument(
        "--global_batch_size=", options.global_batch_size, " over ", options.data_ranks(),
        " ranks with ", options.grad_accum,
        options.grad_accum == 1 ? " micro-batch" : " micro-batches",
        " each: expected a multiple of ", micro_batches, "; take one, or another --world_size or ",
        options.deterministic_batch > 0 ? "--deterministic_batch" : "--grad_accum");
  }
  const int64_t batch_size = options.global_batch_size / micro_batches;
  const bool given = options.batch_size_is_given || options.batch_size != unset.batch_size;
  if (given && options.batch_size != batch_size) {
    return InvalidArgument(
        "--global_batch_size=", options.global_batch_size, " and --batch_size=", options.batch_size,
        ": the one follows from the other, and makes it ", batch_size, "; leave one out");
  }
  options.batch_size = batch_size;
  return options;
}

absl::StatusOr<absl::Duration> ParseTimeout(absl::string_view text) {
  absl::Duration timeout;
  if (absl::ParseDuration(text, &timeout) && timeout > absl::ZeroDuration()) return timeout;
  return InvalidArgument("'", text, "' is not a positive duration; expected one like 90s or 10m");
}

KernelOptions TrainOptions::kernel_options() const {
  KernelOptions kernels;
  kernels.fp32_precision = fp32_precision;
  kernels.allow_slow_kernels = allow_slow_kernels;
  kernels.attention = attention_backend;
  kernels.attention_determinism = attention_determinism == AttentionDeterminism::kOn;
  return kernels;
}

std::optional<StepRange> ParseStepRange(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  StepRange range;
  if (!absl::SimpleAtoi(ends.first, &range.from) || !absl::SimpleAtoi(ends.second, &range.to) ||
      range.from < 1 || range.to < range.from) {
    return std::nullopt;
  }
  return range;
}

TensorParallelOptions TrainOptions::tensor() const {
  return {tensor_parallel, deterministic_tensor, sequence_parallel};
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
  scheduler.backward_prefetch = backward_prefetch;
  return scheduler;
}

MixedPrecision TrainOptions::mixed_precision() const {
  MixedPrecision precision = {param_dtype, reduce_dtype, master_dtype};
  precision.keep_low_precision_grads = keep_low_precision_grads;
  precision.grad_accum_dtype = grad_accum_dtype;
  return precision;
}

OptimizerOptions TrainOptions::optimizer_options() const {
  OptimizerOptions result;
  result.lr = peak_lr();
  result.beta1 = beta1;
  result.beta2 = beta2;
  result.eps = eps;
  result.weight_decay = weight_decay;
  result.state_dtype = optimizer_state_dtype;
  result.seed = seed;
  result.muon.lr = muon_lr;
  result.muon.momentum = muon_momentum;
  result.muon.ns_steps = muon_ns_steps;
  result.muon.scale = muon_scale;
  result.muon.split_qkv = muon_split_qkv;
  result.muon.per_head = muon_per_head;
  if (muon_precision == MuonPrecision::kFp32) result.muon.precision = DType::kFloat32;
  if (muon_precision == MuonPrecision::kBf16) result.muon.precision = DType::kBFloat16;
  result.muon.patterns = absl::StrSplit(muon_parameters, ',', absl::SkipWhitespace());
  return result;
}

absl::StatusOr<std::optional<LossScalerOptions>> TrainOptions::loss_scaler() const {
  LossScalerOptions scaler;
  scaler.growth_interval = loss_scale_growth_interval;
  const bool scales_by_itself =
      loss_scale == "auto" && (param_dtype == DType::kFloat16 || reduce_dtype == DType::kFloat16);
  if (loss_scale != "dynamic" && !scales_by_itself &&
      loss_scale_growth_interval != TrainOptions().loss_scale_growth_interval) {
    return InvalidArgument("--loss_scale_growth_interval=", loss_scale_growth_interval,
                           " needs a dynamic loss scale: --loss_scale=dynamic, or fp16");
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
  return DefaultThreadsPerRank(options.local_world_size > 0 ? options.local_world_size
                                                            : options.world_size);
}

}  // namespace zeroth
