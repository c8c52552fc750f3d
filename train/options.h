// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_OPTIONS_H_
#define ZEROTH_TRAIN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/optim/loss_scaler.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/strategies/offload.h"
#include "zeroth/strategies/scheduler.h"
#include "zeroth/strategies/strategy.h"

namespace zeroth {

// Ranks of a run that starts them itself and is not told how many.
inline constexpr int kDefaultWorldSize = 2;

// Everything that a training run is told, field by field as the flags of the same names (see
// flags.cc for their texts).
struct TrainOptions {
  std::string data;
  std::string model;  // a preset; empty: gpt2_nano, or what init_from holds
  std::string init_from;
  std::string init_adapter;
  std::string tokenizer = "auto";

  std::string device = "cpu";
  std::string comm = "auto";
  std::string strategy = "full_shard";
  int world_size = 0;        // 0: as many as another program has started, or kDefaultWorldSize
  int local_world_size = 0;  // of no flag: ranks on this machine, as far as known; 0: all of them
  std::string comm_timeout = "10m";
  std::string reduction = "tree";
  std::string nccl_copy_engine = "auto";
  int shard_size = 0;
  std::string memory_limit = "0";
  std::string offload = "none";
  std::string offload_dir;   // empty: the device's choice
  int threads_per_rank = 0;  // 0: the machine's cores divided among its ranks
  std::string param_dtype = "fp32";
  std::string reduce_dtype = "fp32";
  std::string grad_accum_dtype = "fp32";
  bool fp32_norms = false;
  bool keep_low_precision_grads = true;
  std::string loss_scale = "auto";
  int64_t loss_scale_growth_interval = 2000;
  std::string master_dtype = "fp32";
  std::string optimizer_state_dtype = "fp32";
  std::string reshard_after_forward = "true";
  bool prefetch = true;
  std::string backward_prefetch = "pre";
  int limit_all_gathers = 2;
  std::string layout = "flat";
  double gradient_divide_factor = 0;
  bool quantized_weights = false;
  bool quantized_gradients = false;
  bool cuda_graphs = false;
  std::string activation_checkpointing = "none";
  int64_t min_wrap_numel = 0;  // 0: a unit per transformer block
  bool shard_optimizer_over_world = false;

  int64_t batch_size = 8;
  int64_t global_batch_size = 0;  // 0: what batch_size makes it; otherwise it makes batch_size
  int64_t grad_accum = 1;
  std::string grad_sync = "every";
  int64_t seq_len = 128;
  int64_t steps = 500;
  double lr = 1e-3;
  double min_lr = -1;  // -1: a tenth of lr
  std::string lr_schedule = "cosine";
  int64_t warmup_steps = 20;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip_grad_norm = 1.0;
  std::string on_nonfinite = "stop";
  uint64_t seed = 1337;
  bool shuffle = true;

  std::string eval_data;
  int64_t eval_every = 0;
  int64_t eval_batches = 16;
  int64_t sample_every = 0;
  int64_t sample_tokens = 160;
  double temperature = 0.8;
  std::string prompt = "The ";

  std::string out;  // empty: a new directory for each run, see run_directory.h
  bool overwrite = false;
  int64_t log_every = 10;
  std::string trace;  // empty: none

  int64_t lora_rank = 0;  // 0: everything is trained
  double lora_alpha = 16;
  std::string lora_targets = "all";
  double lora_b_lr_scale = 1;
  double skip_loss_zscore = 0;
  double skip_grad_norm_zscore = 0;
  double ema_decay = 0;  // 0: no average

  int64_t checkpoint_every = 0;
  int64_t keep_last = 2;
  int64_t keep_every = 0;
  std::string resume;
  bool allow_partial = false;
  bool async_checkpoint = false;
  std::string async_when_busy = "wait";

  int64_t deterministic_batch = 0;  // 0: the batch is what ranks and grad_accum make it
  std::string export_dtype = "fp32";
  std::string max_shard_size = "0";  // as ParseByteCount reads it; 0: one file
  std::string lora_export = "merged";

  std::string fp32_precision = "ieee";
  bool allow_slow_kernels = false;
  std::string fp8 = "none";
  std::string attention_backend = "auto";

  // What reshard_after_forward, shard_size, gradient_divide_factor and
  // shard_optimizer_over_world say. InvalidArgument if the
  // first is none of its values.
  absl::StatusOr<StrategyOptions> strategy_options() const;
  // The same for when units are gathered.
  absl::StatusOr<SchedulerOptions> scheduler_options() const;
  // What the learning rate ends with: min_lr, or a tenth of lr.
  double final_lr() const { return min_lr < 0 ? lr / 10 : min_lr; }
  // The dtypes above, which Validate has checked.
  MixedPrecision mixed_precision() const;
  // AdamWOptions::state_dtype; int8 is uint8 there. InvalidArgument for what is none.
  absl::StatusOr<DType> moment_dtype() const;
  // None where no scaling was asked for. InvalidArgument if --loss_scale is none of its values.
  absl::StatusOr<std::optional<LossScalerOptions>> loss_scaler() const;
  // What fp32_precision, allow_slow_kernels and attention_backend say, which Validate has checked.
  KernelOptions kernel_options() const;
  // The adapters that the flags ask for.
  LoraOptions lora() const;
  // The same for offload and offload_dir.
  OffloadOptions offload_options() const;
};

// InvalidArgument names the flag, its value, and what is allowed.
absl::Status Validate(const TrainOptions& options);

// `options`, whose world size is known, with grad_accum as deterministic_batch asks for; without it
// as they are. InvalidArgument if ranks cannot share the batch, or if grad_accum says otherwise.
absl::StatusOr<TrainOptions> WithDeterministicBatch(TrainOptions options);

// "90s", "10m", "inf": a time longer than none. InvalidArgument for anything else.
absl::StatusOr<absl::Duration> ParseTimeout(absl::string_view text);

// "none", "all", or a comma-separated list of parameters, gradients and optimizer.
// InvalidArgument for anything else.
absl::StatusOr<OffloadOptions> ParseOffload(absl::string_view text);

// The threads that each rank gets: what was asked for, or the machine's cores divided among its
// ranks, at least one.
int ThreadsPerRank(const TrainOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_OPTIONS_H_
