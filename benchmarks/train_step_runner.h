// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_BENCHMARKS_TRAIN_STEP_RUNNER_H_
#define ZEROTH_BENCHMARKS_TRAIN_STEP_RUNNER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "benchmark/benchmark.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/strategies/offload.h"

namespace zeroth {

struct TrainStepSetup {
  std::string device = "cpu";
  std::string model = "gpt2_124m";
  int64_t vocab = 0;   // 0: the model's own
  int64_t layers = 0;  // of a Llama; 0: the model's own
  std::string strategy = "full_shard";
  int ranks = 1;         // threads, sharing the device
  int tensor_ranks = 1;  // of these, so many share layers and sequences
  bool sequence_parallel = false;
  int64_t batch = 1;  // sequences per rank that has data of its own
  int64_t seq = 1024;
  DType param_dtype = DType::kFloat32;
  OffloadOptions offload;
  std::string optimizer = "adamw";
  int64_t micro_batches = 1;  // of `batch` sequences each; gradients are reduced with the last
  bool record_steps = false;  // TrainerOptions::record_steps: played once two have been enqueued
};

struct TrainStepResult {
  double tokens_per_second = 0;  // by the median of the steps
  double flops_per_second = 0;   // the model's, see LanguageModel::FlopsPerToken
  // FLOP/s of all ranks at once in products, the greater of what was measured before and after; the
  // step's own where that is more still.
  double gemm_rate = 0;
  int64_t peak_bytes = 0;             // of rank 0
  double offload_bytes_per_step = 0;  // of rank 0, read and written
};

// The body of a benchmark: whole training steps on random tokens, one for each of its iterations,
// after a step that touches all memory for the first time and learns the order of units. Gradients
// are reduced in fp32. Sets tokens/s, the model's rate and that of products in multiples of `unit`,
// "GFLOP/s" or "TFLOP/s", and ratio_to_floor. None after an error, which the benchmark has then.
std::optional<TrainStepResult> RunTrainSteps(benchmark::State& state, const TrainStepSetup& setup,
                                             const std::string& unit);

// The same with two optimizers in one process, a step of AdamW and one of Muon in turn, so that
// both have the machine in the same state. The time is that of Muon's steps. Sets besides
// ratio_to_adamw, the median over pairs of steps, and floor_of_ratio: what it would be if Muon took
// as long as its products at the rate of GEMM. `peak_MiB` is that of both together.
void RunMuonBesideAdamW(benchmark::State& state, const TrainStepSetup& setup);

}  // namespace zeroth

#endif  // ZEROTH_BENCHMARKS_TRAIN_STEP_RUNNER_H_
