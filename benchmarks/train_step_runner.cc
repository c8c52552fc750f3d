// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/benchmarks/train_step_runner.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/optim/muon_plan.h"
#include "zeroth/train/gemm_rate.h"
#include "zeroth/train/trainer.h"

namespace zeroth {
namespace {

Batch MakeBatch(const TrainStepSetup& setup, int64_t vocab, int rank) {
  Batch batch;
  batch.batch = setup.batch;
  batch.seq = setup.seq;
  for (int64_t i = 0; i < setup.batch * setup.seq; ++i) {
    // Any tokens do: the arithmetic does not depend on them. Spread out, so that the embedding is
    // not served by a cache.
    batch.inputs.push_back(static_cast<int32_t>((i * 7919 + rank * 104729) % vocab));
    batch.targets.push_back(static_cast<int32_t>((i * 7919 + rank * 104729 + 1) % vocab));
  }
  return batch;
}

absl::StatusOr<std::unique_ptr<Trainer>> MakeTrainer(const TrainStepSetup& setup,
                                                     Communicator& world, Device& device) {
  ZEROTH_ASSIGN_OR_RETURN(nlohmann::json config, PresetConfig(setup.model));
  if (setup.vocab > 0) config["vocab_size"] = setup.vocab;
  if (setup.layers > 0) config["num_hidden_layers"] = setup.layers;
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, ModelRegistry::Create(config));
  TrainerOptions options;
  options.sharding.strategy = setup.strategy;
  options.sharding.mixed_precision.param_dtype = setup.param_dtype;
  options.sharding.offload = setup.offload;
  options.record_steps = setup.record_steps;
  options.optimizer = setup.optimizer;
  options.sync_every_micro_batch = setup.micro_batches == 1;
  if (setup.strategy == "hybrid_shard") {
    options.sharding.strategy_options.shard_size = setup.ranks;
  }
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, device, std::move(model), options));
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().Initialize(1));
  return trainer;
}

// Operations of a step's products: for each matrix 5 times two products with it, and one of
// squares, of which the symmetric ones are computed by five eighths.
double MuonFlops(const LanguageModel& model) {
  double flops = 0;
  for (const Parameter* parameter : model.Parameters()) {
    if (!IsMuons(*parameter, {})) continue;
    for (const MuonMatrix& matrix : MatricesOf(*parameter, {})) {
      const auto small = static_cast<double>(std::min(matrix.rows, matrix.columns));
      flops += 5 * 2 * (1.625 * matrix.cost() + 0.625 * small * small * small);
    }
  }
  return flops;
}

absl::StatusOr<TrainStepResult> RunRank(const TrainStepSetup& setup, int64_t steps,
                                        Communicator& world, double& median) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create(setup.device, DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                          MakeTrainer(setup, world, *device));
  const std::vector<Batch> batch(static_cast<size_t>(setup.micro_batches),
                                 MakeBatch(setup, trainer->model().vocab_size(), world.rank()));
  ZEROTH_RETURN_IF_ERROR(trainer->Step(batch, 1e-4).status());
  TrainStepResult result;
  result.peak_bytes = device->allocator().stats().total.peak_bytes;
  const auto measure_rate = [&]() -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const double rate,
                            MeasureGemmRate(world, *device, trainer->kernels(), setup.param_dtype));
    result.gemm_rate = std::max(result.gemm_rate, rate);
    return absl::OkStatus();
  };
  ZEROTH_RETURN_IF_ERROR(measure_rate());
  const auto moved = [&] {
    const OffloadStats stats = trainer->sharding().stats().offload;
    return static_cast<double>(stats.bytes_read + stats.bytes_written);
  };
  const double moved_before = moved();
  std::vector<double> seconds;
  for (int64_t i = 0; i < steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ZEROTH_RETURN_IF_ERROR(trainer->Step(batch, 1e-4).status());
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  if (steps > 0) {
    result.offload_bytes_per_step = (moved() - moved_before) / static_cast<double>(steps);
  }
  ZEROTH_RETURN_IF_ERROR(measure_rate());
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<int64_t>(seconds.size() / 2),
                   seconds.end());
  median = seconds[seconds.size() / 2];
  result.tokens_per_second =
      static_cast<double>(setup.ranks * setup.micro_batches * setup.batch * setup.seq) / median;
  result.flops_per_second = result.tokens_per_second * trainer->model().FlopsPerToken(setup.seq);
  // Products are at least as fast as a step that is made of them.
  result.gemm_rate = std::max(result.gemm_rate, result.flops_per_second);
  if (setup.optimizer == "muon") result.muon_floor = MuonFlops(trainer->model()) / result.gemm_rate;
  return result;
}

}  // namespace

std::optional<TrainStepResult> RunTrainSteps(benchmark::State& state, const TrainStepSetup& setup,
                                             const std::string& unit) {
  const auto steps = static_cast<int64_t>(state.max_iterations);
  TrainStepResult result;
  double seconds = 0;
  const absl::Status status = RunLocalRanks(setup.ranks, [&](Communicator& world) -> absl::Status {
    double mine = 0;
    ZEROTH_ASSIGN_OR_RETURN(const TrainStepResult ours, RunRank(setup, steps, world, mine));
    if (world.rank() != 0) return absl::OkStatus();
    result = ours;
    seconds = mine;
    return absl::OkStatus();
  });
  if (!status.ok()) {
    state.SkipWithError(std::string(status.message()).c_str());
    return std::nullopt;
  }
  for (auto _ : state) state.SetIterationTime(seconds);
  const double scale = unit == "TFLOP/s" ? 1e-12 : 1e-9;
  state.counters["tokens/s"] = result.tokens_per_second;
  state.counters[unit] = result.flops_per_second * scale;
  state.counters["GEMM_rate_" + unit] = result.gemm_rate * scale;
  state.counters["ratio_to_floor"] = result.flops_per_second / result.gemm_rate;
  return result;
}

}  // namespace zeroth
