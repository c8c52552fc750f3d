// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A whole training step of gpt2_124m on the CPU under each strategy, as a ratio to the GEMM peak of
// the same process. Vocabulary 50304 (50257 rounded up to a multiple of 128, as trainers do),
// sequence 256, 4 sequences per rank, 2 ranks with one thread each, float32.

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "benchmark/benchmark.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/nn/presets.h"
#include "zeroth/train/gemm_peak.h"
#include "zeroth/train/trainer.h"

namespace zeroth {
namespace {

constexpr int kRanks = 2;
constexpr int64_t kVocab = 50304;
constexpr int64_t kSeq = 256;
constexpr int64_t kBatch = 4;

Batch MakeBatch(int rank) {
  Batch batch;
  batch.batch = kBatch;
  batch.seq = kSeq;
  for (int64_t i = 0; i < kBatch * kSeq; ++i) {
    // Any tokens do: the arithmetic does not depend on them. Spread out, so that the embedding is
    // not served by a cache.
    batch.inputs.push_back(static_cast<int32_t>((i * 7919 + rank * 104729) % kVocab));
    batch.targets.push_back(static_cast<int32_t>((i * 7919 + rank * 104729 + 1) % kVocab));
  }
  return batch;
}

struct Result {
  double seconds = 0;  // of a step, the median
  double gemm_peak = 0;
  double flops_per_token = 0;
};

absl::Status RunRank(Communicator& world, const std::string& strategy, benchmark::State& state,
                     Result& result) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(nlohmann::json config, PresetConfig("gpt2_124m"));
  config["vocab_size"] = kVocab;
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, ModelRegistry::Create(config));
  const double flops_per_token = model->FlopsPerToken(kSeq);
  TrainerOptions options;
  options.sharding.strategy = strategy;
  if (strategy == "hybrid_shard") options.sharding.strategy_options.shard_size = kRanks;
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, *device, std::move(model), options));
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().Initialize(1));
  const Batch batch = MakeBatch(world.rank());
  // The first step touches all memory for the first time and learns the order of units.
  ZEROTH_RETURN_IF_ERROR(trainer->Step(batch, 1e-4).status());
  ZEROTH_ASSIGN_OR_RETURN(const double peak_before,
                          MeasureGemmPeak(world, *device, trainer->kernels()));
  std::vector<double> seconds;
  for (int64_t i = 0; i < static_cast<int64_t>(state.max_iterations); ++i) {
    const auto start = std::chrono::steady_clock::now();
    ZEROTH_RETURN_IF_ERROR(trainer->Step(batch, 1e-4).status());
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<int64_t>(seconds.size() / 2),
                   seconds.end());
  ZEROTH_ASSIGN_OR_RETURN(const double peak_after,
                          MeasureGemmPeak(world, *device, trainer->kernels()));
  if (world.rank() == 0)
    result = {seconds[seconds.size() / 2], std::max(peak_before, peak_after), flops_per_token};
  return absl::OkStatus();
}

void BM_TrainStep(benchmark::State& state, const std::string& strategy) {
  Result result;
  const absl::Status status = RunLocalRanks(
      kRanks, [&](Communicator& world) { return RunRank(world, strategy, state, result); });
  if (!status.ok()) {
    state.SkipWithError(std::string(status.message()).c_str());
    return;
  }
  for (auto _ : state) state.SetIterationTime(result.seconds);
  const double tokens_per_second = kRanks * kBatch * kSeq / result.seconds;
  state.counters["tokens/s"] = tokens_per_second;
  state.counters["GFLOP/s"] = tokens_per_second * result.flops_per_token / 1e9;
  state.counters["GEMM_peak_GFLOP/s"] = result.gemm_peak / 1e9;
  state.counters["ratio_to_floor"] = tokens_per_second * result.flops_per_token / result.gemm_peak;
}

#define ZEROTH_TRAIN_STEP(strategy)                    \
  BENCHMARK_CAPTURE(BM_TrainStep, strategy, #strategy) \
      ->UseManualTime()                                \
      ->Iterations(5)                                  \
      ->Unit(benchmark::kMillisecond)

ZEROTH_TRAIN_STEP(no_shard);
ZEROTH_TRAIN_STEP(shard_grad_op);
ZEROTH_TRAIN_STEP(full_shard);
ZEROTH_TRAIN_STEP(hybrid_shard);

}  // namespace
}  // namespace zeroth
