// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs whole training steps on one GPU in bf16, gradients reduced in float32; the floor is the bf16
// GEMM rate of the same process. compare_with_torch.py runs the same shapes under PyTorch.

#include <string>

#include "benchmark/benchmark.h"

#include "zeroth/benchmarks/train_step_runner.h"

namespace zeroth {
namespace {

void BM_TrainStepCuda(benchmark::State& state, const std::string& model, int64_t batch, int64_t seq,
                      const std::string& strategy, int ranks, bool graphs) {
  TrainStepSetup setup;
  setup.device = "cuda";
  setup.model = model;
  if (model.rfind("gpt2", 0) == 0) setup.vocab = 50304;  // a multiple of 128, as trainers do
  if (model == "llama3_8b") setup.layers = 4;            // what fits one GPU with its AdamW
  setup.strategy = strategy;
  setup.param_dtype = DType::kBFloat16;
  setup.ranks = ranks;
  setup.batch = batch / ranks;
  setup.seq = seq;
  setup.record_steps = graphs;
  const auto result = RunTrainSteps(state, setup, "TFLOP/s");
  if (!result.has_value()) return;
  state.counters["peak_GiB"] = static_cast<double>(result->peak_bytes) / (1 << 30);
}

// With graphs, a step is recorded once and then launched again for every further step.
#define ZEROTH_TRAIN_STEP_CUDA(name, model, batch, seq, strategy, ranks, graphs)        \
  BENCHMARK_CAPTURE(BM_TrainStepCuda, name, model, batch, seq, strategy, ranks, graphs) \
      ->UseManualTime()                                                                 \
      ->Iterations(10)                                                                  \
      ->Unit(benchmark::kMillisecond)
#define ZEROTH_FULL_SHARD_CUDA(name, model, batch, seq)                                   \
  ZEROTH_TRAIN_STEP_CUDA(name##_full_shard_1, model, batch, seq, "full_shard", 1, false); \
  ZEROTH_TRAIN_STEP_CUDA(name##_full_shard_1_graphs, model, batch, seq, "full_shard", 1, true)

ZEROTH_FULL_SHARD_CUDA(gpt2_124m, "gpt2_124m", 64, 1024);
// Short steps, in which the host's enqueueing weighs more.
ZEROTH_FULL_SHARD_CUDA(gpt2_124m_batch_4, "gpt2_124m", 4, 1024);
ZEROTH_FULL_SHARD_CUDA(gpt2_1558m, "gpt2_1558m", 16, 1024);
ZEROTH_FULL_SHARD_CUDA(llama_1b, "llama_1b", 16, 2048);
ZEROTH_FULL_SHARD_CUDA(llama3_8b_of_4_layers, "llama3_8b", 1, 8192);
ZEROTH_TRAIN_STEP_CUDA(gpt2_124m_no_shard_1, "gpt2_124m", 64, 1024, "no_shard", 1, false);
// Several ranks share one GPU. This shows the cost of sharding itself, without a network.
ZEROTH_TRAIN_STEP_CUDA(gpt2_124m_full_shard_4, "gpt2_124m", 64, 1024, "full_shard", 4, false);

}  // namespace
}  // namespace zeroth
