// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs whole training steps of gpt2_124m on the CPU under each strategy; the floor is the GEMM rate
// of the same process. Vocabulary 50304 (50257 rounded up to a multiple of 128, as trainers do),
// sequence 256, 4 sequences per rank, 2 ranks with one thread each; in float32, and in bf16 with
// gradients reduced in float32.

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"

#include "zeroth/benchmarks/train_step_runner.h"

ABSL_FLAG(int64_t, batch_tokens, 16384, "Tokens of a step of BM_MuonStep, a multiple of 2048.");

namespace zeroth {
namespace {

// Returns the tokens per second in fp32 that this process has measured, by strategy.
std::map<std::string, double>& Float32Rates() {
  static auto* rates = new std::map<std::string, double>;
  return *rates;
}

TrainStepSetup Setup(const std::string& strategy) {
  TrainStepSetup setup;
  setup.strategy = strategy;
  setup.vocab = 50304;
  setup.ranks = 2;
  setup.batch = 4;
  setup.seq = 256;
  return setup;
}

// Sets `counter` to the rate divided by that in fp32, if that has been measured.
void CompareWithFloat32(benchmark::State& state, const std::string& strategy,
                        const TrainStepResult& result, const char* counter) {
  const auto found = Float32Rates().find(strategy);
  if (found == Float32Rates().end()) return;
  state.counters[counter] = result.tokens_per_second / found->second;
}

void BM_TrainStep(benchmark::State& state, const std::string& strategy, DType dtype) {
  TrainStepSetup setup = Setup(strategy);
  setup.param_dtype = dtype;
  const auto result = RunTrainSteps(state, setup, "GFLOP/s");
  if (!result.has_value()) return;
  if (dtype == DType::kFloat32) {
    Float32Rates()[strategy] = result->tokens_per_second;
  } else {
    CompareWithFloat32(state, strategy, *result, "ratio_to_fp32");
  }
}

// Runs full_shard with T tensor ranks. A step has the same number of tokens, over all ranks, as
// without tensor parallelism.
void BM_TensorParallelStep(benchmark::State& state, bool sequence_parallel) {
  TrainStepSetup setup = Setup("full_shard");
  setup.tensor_ranks = static_cast<int>(state.range(0));
  setup.batch *= setup.tensor_ranks;
  setup.sequence_parallel = sequence_parallel;
  const auto result = RunTrainSteps(state, setup, "GFLOP/s");
  if (!result.has_value()) return;
  state.counters["peak_MiB"] = static_cast<double>(result->peak_bytes) / (1 << 20);
  CompareWithFloat32(state, setup.strategy, *result, "ratio_to_T1");
}

// Runs full_shard, with gradients reduced once in a step. Muon's additional work does not depend on
// the batch, so that the ratio falls with --batch_tokens.
void BM_MuonStep(benchmark::State& state) {
  TrainStepSetup setup = Setup("full_shard");
  const int64_t micro_batch = setup.ranks * setup.batch * setup.seq;
  const int64_t tokens = absl::GetFlag(FLAGS_batch_tokens);
  if (tokens < micro_batch || tokens % micro_batch != 0) {
    const std::string problem =
        absl::StrCat("--batch_tokens=", tokens, ": expected a multiple of ", micro_batch);
    return state.SkipWithError(problem.c_str());
  }
  setup.micro_batches = tokens / micro_batch;
  RunMuonBesideAdamW(state, setup);
}

// Runs full_shard with state in files, and compares it with state in memory.
void BM_OffloadedStep(benchmark::State& state, OffloadOptions offload) {
  TrainStepSetup setup = Setup("full_shard");
  setup.offload = std::move(offload);
  const auto result = RunTrainSteps(state, setup, "GFLOP/s");
  if (!result.has_value()) return;
  state.counters["peak_MiB"] = static_cast<double>(result->peak_bytes) / (1 << 20);
  state.counters["moved_MiB"] = result->offload_bytes_per_step / (1 << 20);
  CompareWithFloat32(state, setup.strategy, *result, "ratio_to_memory");
}

OffloadOptions Offloading(bool parameters, bool gradients, bool optimizer) {
  OffloadOptions options;
  options.parameters = parameters;
  options.gradients = gradients;
  options.optimizer = optimizer;
  return options;
}

void FiveSteps(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseManualTime()->Iterations(5)->Unit(benchmark::kMillisecond);
}

#define ZEROTH_TRAIN_STEP(strategy)                                                               \
  BENCHMARK_CAPTURE(BM_TrainStep, strategy##_fp32, #strategy, DType::kFloat32)->Apply(FiveSteps); \
  BENCHMARK_CAPTURE(BM_TrainStep, strategy##_bf16, #strategy, DType::kBFloat16)->Apply(FiveSteps)

ZEROTH_TRAIN_STEP(no_shard);
ZEROTH_TRAIN_STEP(shard_grad_op);
ZEROTH_TRAIN_STEP(full_shard);
ZEROTH_TRAIN_STEP(hybrid_shard);

BENCHMARK_CAPTURE(BM_TensorParallelStep, plain, false)->Arg(2)->Apply(FiveSteps);
BENCHMARK_CAPTURE(BM_TensorParallelStep, sequence_parallel, true)->Arg(2)->Apply(FiveSteps);

BENCHMARK_CAPTURE(BM_OffloadedStep, optimizer, Offloading(false, false, true))->Apply(FiveSteps);
BENCHMARK_CAPTURE(BM_OffloadedStep, optimizer_gradients, Offloading(false, true, true))
    ->Apply(FiveSteps);
BENCHMARK_CAPTURE(BM_OffloadedStep, all, Offloading(true, true, true))->Apply(FiveSteps);

BENCHMARK(BM_MuonStep)->Apply(FiveSteps);

}  // namespace
}  // namespace zeroth
