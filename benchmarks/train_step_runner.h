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
  int tensor_ranks = 1;  // tensor parallel ranks
  bool sequence_parallel = false;
  int64_t batch = 1;  // sequences per rank, or per group of tensor ranks
  int64_t seq = 1024;
  DType param_dtype = DType::kFloat32;
  OffloadOptions offload;
  std::string optimizer = "adamw";
  int64_t micro_batches = 1;  // of `batch` sequences each; gradients are reduced after the last
  bool record_steps = false;  // TrainerOptions::record_steps
};

struct TrainStepResult {
  double seconds = 0;            // median time of a step
  double tokens_per_second = 0;  // at that time
  double flops_per_second = 0;   // of the model, see LanguageModel::FlopsPerToken
  // GEMM FLOP/s of all ranks together: the larger of two measurements, before and after the steps,
  // or the step's own rate if that is larger.
  double gemm_rate = 0;
  // FLOP/s of all ranks together in register-only multiply-adds (fma_peak.h): the best round,
  // before or after the steps. 0 on GPUs and for types other than fp32.
  double fma_peak = 0;
  int64_t peak_bytes = 0;             // of rank 0
  double offload_bytes_per_step = 0;  // of rank 0, read and written
};

// Runs one training step per iteration of a benchmark, after a first step that touches all memory
// and records the order of units. Gradients are reduced in fp32. Sets tokens/s, ratio_to_floor and,
// in `unit` ("GFLOP/s" or "TFLOP/s"), the model's rate, the GEMM rate and the FMA peak. Reports an
// error to the benchmark and then returns nothing.
std::optional<TrainStepResult> RunTrainSteps(benchmark::State& state, const TrainStepSetup& setup,
                                             const std::string& unit);

// Alternates steps of AdamW and of Muon in one process, so that both meet the same state of the
// machine. Reports the time of Muon's steps. Also sets ratio_to_adamw, the median over pairs of
// steps, and floor_of_ratio, that ratio if a Muon step took an AdamW step plus only its own GEMMs
// at the GEMM rate. peak_MiB is the memory of both together.
void RunMuonBesideAdamW(benchmark::State& state, const TrainStepSetup& setup);

}  // namespace zeroth
