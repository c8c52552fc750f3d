// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/data/chat/on_long.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/preference/preference.h"
#include "zeroth/nn/activation_checkpointing.h"
#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/nn/layers/router_options.h"
#include "zeroth/nn/tensor_ranks.h"
#include "zeroth/optim/loss_scaler.h"
#include "zeroth/optim/lr_schedule.h"
#include "zeroth/optim/optimizer.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/strategies/offload.h"
#include "zeroth/strategies/scheduler.h"
#include "zeroth/strategies/shard_layout.h"
#include "zeroth/strategies/strategy.h"

namespace zeroth {

// Number of ranks of a run that starts its ranks itself, unless --world_size is given.
inline constexpr int kDefaultWorldSize = 2;

#define GROUP(text)
#define OPTION(...)
#define ZEROTH_LIST(...) \
  { __VA_ARGS__ }
#define CHOICE(type, name, default_value, decides_results, enumerators, help) \
  enum class type : uint8_t ZEROTH_LIST enumerators;
#include "zeroth/options/options.inc"
#undef ZEROTH_LIST

// All options of a training run: a field for each line of options.inc.
struct TrainOptions {
#define GROUP(text)
#define OPTION(type, name, default_value, ...) type name = default_value;
#include "zeroth/options/options.inc"

  // The next two fields are not options. Number of ranks on this machine; 0: unknown, assumed to be
  // all ranks.
  int local_world_size = 0;
  // True if the command line names --batch_size, even with its default value.
  bool batch_size_is_given = false;

  // These derive the options of a run's parts. Every option must have a value that CheckOption
  // allows.
  StrategyOptions strategy_options() const;
  SchedulerOptions scheduler_options() const;
  MixedPrecision mixed_precision() const;
  OptimizerOptions optimizer_options() const;
  // nullopt if the loss is not scaled. InvalidArgument if the scale is not a power of two.
  absl::StatusOr<std::optional<LossScalerOptions>> loss_scaler() const;
  KernelOptions kernel_options() const;
  LoraOptions lora() const;
  RouterOptions router() const;
  std::vector<std::string> new_token_list() const;
  TensorParallelOptions tensor() const;
  // Number of ranks with different data. The world size must be known.
  int data_ranks() const { return world_size / tensor_parallel; }
  OffloadOptions offload_options() const;
  // The peak learning rate: lr, or if that is negative the usual value for this kind of training.
  double peak_lr() const {
    if (lr >= 0) return lr;
    if (init_from.empty()) return 1e-3;
    if (preference().has_value()) return lora_rank > 0 ? 1e-5 : 1e-6;
    return lora_rank > 0 ? 2e-4 : 2e-5;
  }
  // The loss of pairs; nullopt with Objective::kNextToken and kDistill.
  std::optional<PreferenceOptions> preference() const;
  // True if the reference's losses are computed once, before the first step, instead of in each
  // step by turning adapters off.
  bool caches_reference() const;
  // The path of the reference model; empty if it is that from which training begins.
  std::string reference_path() const;
  // The learning rate at the end of the schedule: min_lr, or a tenth of the peak.
  double final_lr() const { return min_lr < 0 ? DecimalTenth(peak_lr()) : min_lr; }
};

// Checks each option and the combination of options. InvalidArgument names the flag, its value, and
// what is allowed.
absl::Status Validate(const TrainOptions& options);

// Number of sequences, and of tokens, of a step, over all ranks. The world size must be known, and
// for tokens seq_len, too.
int64_t SequencesPerStep(const TrainOptions& options);
inline int64_t TokensPerStep(const TrainOptions& options) {
  return SequencesPerStep(options) * options.seq_len;
}

// Returns `options` with the grad_accum and the batch_size implied by deterministic_batch and
// global_batch_size, where these are set. The world size must be known. InvalidArgument if a batch
// does not divide among ranks and micro-batches, if an implied option was set to another value, and
// unless tensor_parallel divides the world size.
absl::StatusOr<TrainOptions> WithSharesOfRanks(TrainOptions options);

// Parses a positive duration, as "90s", "10m" or "inf". InvalidArgument for anything else.
absl::StatusOr<absl::Duration> ParseTimeout(absl::string_view text);

// Steps of a run, counted from 1.
struct StepRange {
  int64_t from = 0;
  int64_t to = 0;  // the last one
};
// Parses "FROM:TO". nullopt for anything else.
std::optional<StepRange> ParseStepRange(absl::string_view text);

// Parses "none", "all", or a comma-separated list of parameters, gradients and optimizer.
// InvalidArgument for anything else.
absl::StatusOr<OffloadOptions> ParseOffload(absl::string_view text);

// Number of threads of each rank: threads_per_rank, or the machine's cores divided among its ranks,
// at least one.
int ThreadsPerRank(const TrainOptions& options);

}  // namespace zeroth
