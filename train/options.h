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
#include "zeroth/nn/tensor_ranks.h"
#include "zeroth/optim/loss_scaler.h"
#include "zeroth/optim/optimizer.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/strategies/offload.h"
#include "zeroth/strategies/scheduler.h"
#include "zeroth/strategies/strategy.h"

namespace zeroth {

// Ranks of a run that starts them itself and is not told how many.
inline constexpr int kDefaultWorldSize = 2;

// Everything that a training run is told: a field for each line of options.inc.
struct TrainOptions {
#define GROUP(text)
#define OPTION(type, name, default_value, ...) type name = default_value;
#include "zeroth/train/options.inc"

  // These are no options. Ranks on this machine, as far as known; 0: all of them.
  int local_world_size = 0;
  // Whether the command line itself says so, be it the default.
  bool batch_size_is_given = false;

  // What the options mean to those who are told by them. Each option has a value that
  // CheckOption allows.
  StrategyOptions strategy_options() const;
  SchedulerOptions scheduler_options() const;
  MixedPrecision mixed_precision() const;
  OptimizerOptions optimizer_options() const;
  DType moment_dtype() const;  // AdamWOptions::state_dtype: uint8 for float8_block
  // None where no scaling was asked for. InvalidArgument if the scale is no power of two.
  absl::StatusOr<std::optional<LossScalerOptions>> loss_scaler() const;
  KernelOptions kernel_options() const;
  LoraOptions lora() const;
  TensorParallelOptions tensor() const;
  // Ranks with data of their own, of a world whose size is known.
  int data_ranks() const { return world_size / tensor_parallel; }
  OffloadOptions offload_options() const;
  // What the learning rate ends with: min_lr, or a tenth of lr.
  double final_lr() const { return min_lr < 0 ? lr / 10 : min_lr; }
};

// InvalidArgument names the flag, its value, and what is allowed: by itself, or beside others.
absl::Status Validate(const TrainOptions& options);

// `options`, whose world size is known, with grad_accum as deterministic_batch asks for; without it
// as they are. InvalidArgument if ranks cannot share the batch, or if grad_accum says otherwise.
absl::StatusOr<TrainOptions> WithDeterministicBatch(TrainOptions options);

// Sequences that all ranks together train on in a step. The world size is known.
int64_t SequencesPerStep(const TrainOptions& options);

// `options`, whose world size and grad_accum are known, with batch_size as global_batch_size asks
// for; without it as they are. InvalidArgument if it does not divide among ranks and micro-batches,
// or if batch_size says otherwise.
absl::StatusOr<TrainOptions> WithGlobalBatch(TrainOptions options);

// Both of them. InvalidArgument also unless tensor_parallel divides the world size.
absl::StatusOr<TrainOptions> WithSharesOfRanks(TrainOptions options);

// "90s", "10m", "inf": a time longer than none. InvalidArgument for anything else.
absl::StatusOr<absl::Duration> ParseTimeout(absl::string_view text);

// Steps of a run, counted from 1.
struct StepRange {
  int64_t from = 0;
  int64_t to = 0;  // the last one
};
// "FROM:TO"; none if the text is not that.
std::optional<StepRange> ParseStepRange(absl::string_view text);

// "none", "all", or a comma-separated list of parameters, gradients and optimizer.
// InvalidArgument for anything else.
absl::StatusOr<OffloadOptions> ParseOffload(absl::string_view text);

// The threads that each rank gets: what was asked for, or the machine's cores divided among its
// ranks, at least one.
int ThreadsPerRank(const TrainOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_OPTIONS_H_
