// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A whole training step of gpt2_124m on the CPU under each strategy, as a ratio to the GEMM rate of
// the same process. Vocabulary 50304 (50257 rounded up to a multiple of 128, as trainers do),
// sequence 256, 4 sequences per rank, 2 ranks with one thread each; in float32, and in bf16 with
// gradients reduced in float32.

#include <map>
#include <string>
#include <utility>

#include "benchmark/benchmark.h"

#include "zeroth/benchmarks/train_step_runner.h"

namespace zeroth {
namespace {

// Tokens per second in fp32 by strategy, of this process.
std::map<std::string, double>& Float32Rates() {
  static auto* rates = new std::map<std::string, double>;
  return *rates;
}

void BM_TrainStep(benchmark::State& state, const std::string& strategy, DType dtype) {
  TrainStepSetup setup;
  setup.strategy = strategy;
  setup.param_dtype = dtype;
  setup.vocab = 50304;
  setup.ranks = 2;
  setup.batch = 4;
  setup.seq = 256;
  const absl::StatusOr<TrainStepResult> result =
      RunTrainSteps(setup, static_cast<int64_t>(state.max_iterations));
  if (!result.ok()) {
    state.SkipWithError(std::string(result.status().message()).c_str());
    return;
  }
  for (auto _ : state) state.SetIterationTime(result->seconds);
  state.counters["tokens/s"] = result->tokens_per_second;
  if (dtype == DType::kFloat32) {
    Float32Rates()[strategy] = result->tokens_per_second;
  } else if (const auto found = Float32Rates().find(strategy); found != Float32Rates().end()) {
    state.counters["ratio_to_fp32"] = result->tokens_per_second / found->second;
  }
  state.counters["GFLOP/s"] = result->flops_per_second / 1e9;
  state.counters["GEMM_rate_GFLOP/s"] = result->gemm_rate / 1e9;
  state.counters["ratio_to_floor"] = result->flops_per_second / result->gemm_rate;
}

// Muon against AdamW under full_shard, with so many micro-batches of 2048 tokens: what Muon adds is
// the same for any batch.
void BM_MuonStep(benchmark::State& state) {
  TrainStepSetup setup;
  setup.vocab = 50304;
  setup.ranks = 2;
  setup.batch = 4;
  setup.seq = 256;
  setup.micro_batches = state.range(0);
  const auto steps = static_cast<int64_t>(state.max_iterations);
  const absl::StatusOr<TrainStepResult> adamw = RunTrainSteps(setup, steps);
  setup.optimizer = "muon";
  const absl::StatusOr<TrainStepResult> muon = RunTrainSteps(setup, steps);
  if (!adamw.ok() || !muon.ok()) {
    const absl::Status& error = adamw.ok() ? muon.status() : adamw.status();
    state.SkipWithError(std::string(error.message()).c_str());
    return;
  }
  for (auto _ : state) state.SetIterationTime(muon->seconds);
  state.counters["tokens/s"] = muon->tokens_per_second;
  state.counters["adamw_s"] = adamw->seconds;
  state.counters["ratio_to_adamw"] = muon->seconds / adamw->seconds;
  state.counters["floor_s"] = muon->muon_floor;
  state.counters["floor_ratio_to_adamw"] = 1 + muon->muon_floor / adamw->seconds;
  state.counters["peak_MiB"] = static_cast<double>(muon->peak_bytes) / (1 << 20);
}
BENCHMARK(BM_MuonStep)
    ->Arg(1)
    ->Arg(8)
    ->UseManualTime()
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

// full_shard with state in files, against the same in memory.
void BM_OffloadedStep(benchmark::State& state, OffloadOptions offload) {
  TrainStepSetup setup;
  setup.vocab = 50304;
  setup.ranks = 2;
  setup.batch = 4;
  setup.seq = 256;
  setup.offload = std::move(offload);
  const absl::StatusOr<TrainStepResult> result =
      RunTrainSteps(setup, static_cast<int64_t>(state.max_iterations));
  if (!result.ok()) {
    state.SkipWithError(std::string(result.status().message()).c_str());
    return;
  }
  for (auto _ : state) state.SetIterationTime(result->seconds);
  state.counters["tokens/s"] = result->tokens_per_second;
  state.counters["peak_MiB"] = static_cast<double>(result->peak_bytes) / (1 << 20);
  state.counters["moved_MiB"] = result->offload_bytes_per_step / (1 << 20);
  if (const auto found = Float32Rates().find(setup.strategy); found != Float32Rates().end()) {
    state.counters["ratio_to_memory"] = result->tokens_per_second / found->second;
  }
}

OffloadOptions Offloading(bool parameters, bool gradients, bool optimizer) {
  OffloadOptions options;
  options.parameters = parameters;
  options.gradients = gradients;
  options.optimizer = optimizer;
  return options;
}

#define ZEROTH_OFFLOADED_STEP(name, ...)                             \
  BENCHMARK_CAPTURE(BM_OffloadedStep, name, Offloading(__VA_ARGS__)) \
      ->UseManualTime()                                              \
      ->Iterations(5)                                                \
      ->Unit(benchmark::kMillisecond)

#define ZEROTH_TRAIN_STEP(strategy)                                             \
  BENCHMARK_CAPTURE(BM_TrainStep, strategy##_fp32, #strategy, DType::kFloat32)  \
      ->UseManualTime()                                                         \
      ->Iterations(5)                                                           \
      ->Unit(benchmark::kMillisecond);                                          \
  BENCHMARK_CAPTURE(BM_TrainStep, strategy##_bf16, #strategy, DType::kBFloat16) \
      ->UseManualTime()                                                         \
      ->Iterations(5)                                                           \
      ->Unit(benchmark::kMillisecond)

ZEROTH_TRAIN_STEP(no_shard);
ZEROTH_TRAIN_STEP(shard_grad_op);
ZEROTH_TRAIN_STEP(full_shard);
ZEROTH_TRAIN_STEP(hybrid_shard);

ZEROTH_OFFLOADED_STEP(optimizer, false, false, true);
ZEROTH_OFFLOADED_STEP(optimizer_gradients, false, true, true);
ZEROTH_OFFLOADED_STEP(all, true, true, true);

}  // namespace
}  // namespace zeroth
