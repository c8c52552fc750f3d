// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

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
  int tensor_ranks = 1;  // ranks that share layers and sequences
  bool sequence_parallel = false;
  int64_t batch = 1;  // sequences of a rank, or of a group of tensor ranks
  int64_t seq = 1024;
  DType param_dtype = DType::kFloat32;
  OffloadOptions offload;
  std::string optimizer = "adamw";
  int64_t micro_batches = 1;  // of `batch` sequences each; gradients are reduced after the last
  bool record_steps = false;  // TrainerOptions::record_steps
};

struct TrainStepResult {
  double seconds = 0;            // of a step: the median
  double tokens_per_second = 0;  // by that
  double flops_per_second = 0;   // the model's, see LanguageModel::FlopsPerToken
  // FLOP/s of all ranks together in GEMMs: the larger of two measurements, before and after, or the
  // step's own rate if that is larger.
  double gemm_rate = 0;
  // FLOP/s of all ranks together in multiply-adds of registers (fma_peak.h): the best round, before
  // or after. 0 on GPUs and in other types than fp32.
  double fma_peak = 0;
  int64_t peak_bytes = 0;             // of rank 0
  double offload_bytes_per_step = 0;  // of rank 0, read and written
};

// The body of a benchmark: runs a training step for each iteration, after a first step that touches
// all memory and records the order of units. Gradients are reduced in fp32. Sets tokens/s, the
// model's rate, the GEMM rate and the FMA peak in `unit`, "GFLOP/s" or "TFLOP/s", and
// ratio_to_floor. Returns nothing after an error, which it reports to the benchmark.
std::optional<TrainStepResult> RunTrainSteps(benchmark::State& state, const TrainStepSetup& setup,
                                             const std::string& unit);

// The same with two optimizers in one process. Steps of AdamW and of Muon alternate, so that both
// meet the same state of the machine. The time is that of Muon's steps. Also sets ratio_to_adamw,
// the median over pairs of steps, and floor_of_ratio, its value if Muon needed only the time of its
// GEMMs at the GEMM rate. peak_MiB is the memory of both together.
void RunMuonBesideAdamW(benchmark::State& state, const TrainStepSetup& setup);

}  // namespace zeroth
