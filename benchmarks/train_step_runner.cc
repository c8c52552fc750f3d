// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/benchmarks/train_step_runner.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/benchmarks/fma_peak.h"
#include "zeroth/benchmarks/rank_stopwatch.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/optim/muon_plan.h"
#include "zeroth/plan/machine_measure.h"

namespace zeroth {
namespace {

Batch MakeBatch(const TrainStepSetup& setup, int64_t vocab, int rank) {
  Batch batch;
  batch.batch = setup.batch;
  batch.seq = setup.seq;
  for (int64_t i = 0; i < setup.batch * setup.seq; ++i) {
    // The arithmetic does not depend on the tokens. They are spread out, so that the embedding does
    // not stay in a cache.
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
  options.tensor.size = setup.tensor_ranks;
  options.tensor.sequence = setup.sequence_parallel;
  options.sync_every_micro_batch = setup.micro_batches == 1;
  if (setup.strategy == "hybrid_shard") {
    options.sharding.strategy_options.shard_size = setup.ranks;
  }
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, device, std::move(model), options));
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().Initialize(1));
  return trainer;
}

// Returns the FLOPs of Muon's GEMMs in a step. Each of 5 iterations has two GEMMs with the matrix
// (s = x x^T and p x) and one of s with itself. Only five eighths of s and of its square are
// computed, since they are symmetric.
double MuonFlops(const LanguageModel& model) {
  double flops = 0;
  for (const Parameter* parameter : model.Parameters()) {
    if (!UsesMuon(*parameter, {})) continue;
    for (const MuonMatrix& matrix : MatricesOf(*parameter, {})) {
      const auto small = static_cast<double>(std::min(matrix.rows, matrix.columns));
      flops += 5 * 2 * (1.625 * matrix.cost() + 0.625 * small * small * small);
    }
  }
  return flops;
}

// One rank's trainer and batch in a benchmark.
class BenchRank {
 public:
  // Runs a first step, which touches all memory and records the order of units.
  static absl::StatusOr<std::unique_ptr<BenchRank>> Create(const TrainStepSetup& setup,
                                                           Communicator& world, Device& device) {
    auto rank = std::make_unique<BenchRank>();
    ZEROTH_ASSIGN_OR_RETURN(rank->trainer_, MakeTrainer(setup, world, device));
    rank->batch_.assign(
        static_cast<size_t>(setup.micro_batches),
        MakeBatch(setup, rank->trainer_->model().vocab_size(), world.rank() / setup.tensor_ranks));
    ZEROTH_RETURN_IF_ERROR(rank->Step().status());
    return rank;
  }

  Trainer& trainer() { return *trainer_; }

  // Runs a step and returns its seconds.
  absl::StatusOr<double> Step() {
    const auto start = std::chrono::steady_clock::now();
    ZEROTH_RETURN_IF_ERROR(trainer_->Step(batch_, 1e-4).status());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  std::unique_ptr<Trainer> trainer_;
  std::vector<Batch> batch_;
};

// Raises the GEMM rate and the FMA peak of `result` to the current ones, if those are higher.
absl::Status MeasureRates(const TrainStepSetup& setup, Trainer& trainer, RankStopwatch& stopwatch,
                          TrainStepResult& result) {
  ZEROTH_ASSIGN_OR_RETURN(const double gemm, MeasureGemmRate(trainer.world(), trainer.device(),
                                                             trainer.kernels(), setup.param_dtype));
  result.gemm_rate = std::max(result.gemm_rate, gemm);
  if (setup.device != "cpu" || setup.param_dtype != DType::kFloat32) return absl::OkStatus();
  constexpr int kRounds = 15;  // the machine may be busy in some
  for (int i = 0; i < kRounds; ++i) {
    double flops = 0;
    ZEROTH_ASSIGN_OR_RETURN(
        const double seconds,
        stopwatch.Time(trainer.world(), trainer.device().compute_stream(), [&flops] {
          flops = MultiplyAdd();
          return absl::OkStatus();
        }));
    result.fma_peak = std::max(result.fma_peak, flops * setup.ranks / seconds);
  }
  return absl::OkStatus();
}

void SetSpeed(const TrainStepSetup& setup, Trainer& trainer, std::vector<double> seconds,
              TrainStepResult& result) {
  // Tokens in a step of all ranks together.
  const int64_t tokens =
      setup.ranks / setup.tensor_ranks * setup.micro_batches * setup.batch * setup.seq;
  result.seconds = Median(std::move(seconds));
  result.tokens_per_second = static_cast<double>(tokens) / result.seconds;
  result.flops_per_second = result.tokens_per_second * trainer.model().FlopsPerToken(setup.seq);
  // GEMMs are at least as fast as a step that consists of them.
  result.gemm_rate = std::max(result.gemm_rate, result.flops_per_second);
}

absl::StatusOr<TrainStepResult> RunRank(const TrainStepSetup& setup, int64_t steps,
                                        RankStopwatch& stopwatch, Communicator& world,
                                        Device& device) {
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<BenchRank> rank,
                          BenchRank::Create(setup, world, device));
  Trainer& trainer = rank->trainer();
  TrainStepResult result;
  result.peak_bytes = device.allocator().stats().total.peak_bytes;
  ZEROTH_RETURN_IF_ERROR(MeasureRates(setup, trainer, stopwatch, result));
  const auto moved = [&] {
    const OffloadStats stats = trainer.sharding().stats().offload;
    return static_cast<double>(stats.bytes_read + stats.bytes_written);
  };
  const double moved_before = moved();
  std::vector<double> seconds;
  for (int64_t i = 0; i < steps; ++i) {
    ZEROTH_ASSIGN_OR_RETURN(const double took, rank->Step());
    seconds.push_back(took);
  }
  if (steps > 0) {
    result.offload_bytes_per_step = (moved() - moved_before) / static_cast<double>(steps);
  }
  ZEROTH_RETURN_IF_ERROR(MeasureRates(setup, trainer, stopwatch, result));
  SetSpeed(setup, trainer, std::move(seconds), result);
  return result;
}

// The measurements of a rank with both optimizers.
struct Pairs {
  TrainStepResult muon;
  double ratio = 0;
  double floor = 0;
};

absl::StatusOr<Pairs> RunPairs(TrainStepSetup setup, int64_t steps, RankStopwatch& stopwatch,
                               Communicator& world, Device& device) {
  setup.optimizer = "adamw";
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<BenchRank> adamw,
                          BenchRank::Create(setup, world, device));
  setup.optimizer = "muon";
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<BenchRank> muon,
                          BenchRank::Create(setup, world, device));
  Pairs pairs;
  ZEROTH_RETURN_IF_ERROR(MeasureRates(setup, muon->trainer(), stopwatch, pairs.muon));
  std::vector<double> adamw_seconds;
  std::vector<double> muon_seconds;
  std::vector<double> ratios;
  for (int64_t i = 0; i < steps; ++i) {
    // The optimizers take turns in running first.
    const bool muon_first = i % 2 == 1;
    ZEROTH_ASSIGN_OR_RETURN(const double first, (muon_first ? muon : adamw)->Step());
    ZEROTH_ASSIGN_OR_RETURN(const double second, (muon_first ? adamw : muon)->Step());
    adamw_seconds.push_back(muon_first ? second : first);
    muon_seconds.push_back(muon_first ? first : second);
    ratios.push_back(muon_seconds.back() / adamw_seconds.back());
  }
  ZEROTH_RETURN_IF_ERROR(MeasureRates(setup, muon->trainer(), stopwatch, pairs.muon));
  pairs.muon.peak_bytes = device.allocator().stats().total.peak_bytes;
  SetSpeed(setup, muon->trainer(), std::move(muon_seconds), pairs.muon);
  pairs.ratio = Median(std::move(ratios));
  pairs.floor = 1 + MuonFlops(muon->trainer().model()) / pairs.muon.gemm_rate /
                        Median(std::move(adamw_seconds));
  return pairs;
}

// Runs `run` on the ranks' threads, each with a device, and returns the result of rank 0.
template <typename Result>
absl::StatusOr<Result> OnRanks(
    const TrainStepSetup& setup,
    const std::function<absl::StatusOr<Result>(RankStopwatch& stopwatch, Communicator& world,
                                               Device& device)>& run) {
  Result result;
  RankStopwatch stopwatch(setup.ranks);
  const absl::Status status = RunLocalRanks(setup.ranks, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create(setup.device, DeviceOptions()));
    device->BindThread();
    ZEROTH_ASSIGN_OR_RETURN(const Result ours, run(stopwatch, world, *device));
    if (world.rank() == 0) result = ours;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return result;
}

void SetCounters(benchmark::State& state, const TrainStepResult& result, const std::string& unit) {
  const double scale = unit == "TFLOP/s" ? 1e-12 : 1e-9;
  state.counters["tokens/s"] = result.tokens_per_second;
  state.counters[unit] = result.flops_per_second * scale;
  state.counters["GEMM_rate_" + unit] = result.gemm_rate * scale;
  if (result.fma_peak > 0) state.counters["FMA_peak_" + unit] = result.fma_peak * scale;
  state.counters["ratio_to_floor"] = result.flops_per_second / result.gemm_rate;
}

}  // namespace

std::optional<TrainStepResult> RunTrainSteps(benchmark::State& state, const TrainStepSetup& setup,
                                             const std::string& unit) {
  const auto steps = static_cast<int64_t>(state.max_iterations);
  const absl::StatusOr<TrainStepResult> result = OnRanks<TrainStepResult>(
      setup, [&](RankStopwatch& stopwatch, Communicator& world, Device& device) {
        return RunRank(setup, steps, stopwatch, world, device);
      });
  if (!result.ok()) {
    state.SkipWithError(std::string(result.status().message()).c_str());
    return std::nullopt;
  }
  for (auto _ : state) state.SetIterationTime(result->seconds);
  SetCounters(state, *result, unit);
  return *result;
}

void RunMuonBesideAdamW(benchmark::State& state, const TrainStepSetup& setup) {
  const auto steps = static_cast<int64_t>(state.max_iterations);
  const absl::StatusOr<Pairs> pairs =
      OnRanks<Pairs>(setup, [&](RankStopwatch& stopwatch, Communicator& world, Device& device) {
        return RunPairs(setup, steps, stopwatch, world, device);
      });
  if (!pairs.ok()) return state.SkipWithError(std::string(pairs.status().message()).c_str());
  for (auto _ : state) state.SetIterationTime(pairs->muon.seconds);
  SetCounters(state, pairs->muon, "GFLOP/s");
  state.counters["ratio_to_adamw"] = pairs->ratio;
  state.counters["floor_of_ratio"] = pairs->floor;
  state.counters["peak_MiB"] = static_cast<double>(pairs->muon.peak_bytes) / (1 << 20);
}

}  // namespace zeroth
