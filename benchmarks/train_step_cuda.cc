// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Whole training steps on one GPU in bf16, gradients reduced in float32, as a ratio to the bf16
// GEMM peak of the same process. compare_with_torch.py runs the same shapes under PyTorch.

#include <string>

#include "benchmark/benchmark.h"

#include "zeroth/benchmarks/train_step_runner.h"

namespace zeroth {
namespace {

void BM_TrainStepCuda(benchmark::State& state, const std::string& model, int64_t batch, int64_t seq,
                      const std::string& strategy, int ranks) {
  TrainStepSetup setup;
  setup.device = "cuda";
  setup.model = model;
  if (model.rfind("gpt2", 0) == 0) setup.vocab = 50304;  // a multiple of 128, as trainers do
  setup.strategy = strategy;
  setup.param_dtype = DType::kBFloat16;
  setup.ranks = ranks;
  setup.batch = batch / ranks;
  setup.seq = seq;
  const absl::StatusOr<TrainStepResult> result =
      RunTrainSteps(setup, static_cast<int64_t>(state.max_iterations));
  if (!result.ok()) {
    state.SkipWithError(std::string(result.status().message()).c_str());
    return;
  }
  for (auto _ : state) state.SetIterationTime(result->seconds);
  state.counters["tokens/s"] = result->tokens_per_second;
  state.counters["TFLOP/s"] = result->flops_per_second / 1e12;
  state.counters["GEMM_peak_TFLOP/s"] = result->gemm_peak / 1e12;
  state.counters["ratio_to_floor"] = result->flops_per_second / result->gemm_peak;
  state.counters["peak_GiB"] = static_cast<double>(result->peak_bytes) / (1 << 30);
}

#define ZEROTH_TRAIN_STEP_CUDA(model, batch, seq, strategy, ranks)                                 \
  BENCHMARK_CAPTURE(BM_TrainStepCuda, model##_##strategy##_##ranks, #model, batch, seq, #strategy, \
                    ranks)                                                                         \
      ->UseManualTime()                                                                            \
      ->Iterations(10)                                                                             \
      ->Unit(benchmark::kMillisecond)

ZEROTH_TRAIN_STEP_CUDA(gpt2_124m, 64, 1024, full_shard, 1);
ZEROTH_TRAIN_STEP_CUDA(gpt2_124m, 64, 1024, no_shard, 1);
// Several ranks take turns on one GPU: what sharding itself costs, without a network.
ZEROTH_TRAIN_STEP_CUDA(gpt2_124m, 64, 1024, full_shard, 4);
ZEROTH_TRAIN_STEP_CUDA(gpt2_1558m, 16, 1024, full_shard, 1);
ZEROTH_TRAIN_STEP_CUDA(llama_1b, 16, 2048, full_shard, 1);

}  // namespace
}  // namespace zeroth
