// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares plans for this CPU with measurements: of the steps of train_step, and of collectives
// between threads. In each round the ranks measure the machine, as tools/plan --measure does, then
// the work is planned and run. ratio_to_floor is the median over rounds of the planned time over
// the measured one: 1 is exact, less is optimistic. With --breakdown, also prints the operations of
// the median step beside their plans.

#include "zeroth/plan/plan.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/benchmarks/operation_times.h"
#include "zeroth/benchmarks/rank_stopwatch.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/comm/planned/planned_communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/planned/planned_device.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/data/loader.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/options/options.h"
#include "zeroth/options/trainer_options.h"
#include "zeroth/plan/machine_measure.h"

ABSL_FLAG(bool, breakdown, false,
          "Print a table of each planned step's operations: time, share, rate, plan; and waits.");

namespace zeroth {
namespace {

constexpr int kRanks = 2;

struct Round {
  double planned = 0;  // seconds
  double measured = 0;
  std::string breakdown;  // of the work, if it has one
};

// Work to measure, and its planned time.
struct Work {
  std::function<absl::Status()> run;                              // on each rank
  std::function<absl::StatusOr<double>(const Machine&)> planned;  // its seconds
  // Describes what took the time since the last call; called after a round with the seconds of all
  // its runs. Not set for most work.
  std::function<absl::StatusOr<std::string>(double seconds)> breakdown;
  int rounds = 5;
  int times = 1;  // in a round
};
using WorkMaker = std::function<absl::StatusOr<Work>(Communicator& world, Device& device)>;

absl::Status RunRank(const WorkMaker& make, Communicator& world, RankStopwatch& stopwatch,
                     std::vector<Round>& rounds) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(const Work work, make(world, *device));
  // Touches all memory for the first time, and learns the order of units.
  for (int i = 0; i < 2; ++i) ZEROTH_RETURN_IF_ERROR(work.run());
  for (int i = 0; i < work.rounds; ++i) {
    Machine machine = LocalCpu();
    ZEROTH_RETURN_IF_ERROR(MeasureRanks(world, *device, kRanks, machine));
    Round round;
    if (world.rank() == 0) {
      ZEROTH_ASSIGN_OR_RETURN(round.planned, work.planned(machine));
    }
    std::vector<double> seconds;
    for (int time = 0; time < work.times; ++time) {
      ZEROTH_ASSIGN_OR_RETURN(const double taken,
                              stopwatch.Time(world, device->compute_stream(), work.run));
      seconds.push_back(taken);
    }
    if (work.breakdown) {
      const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
      ZEROTH_ASSIGN_OR_RETURN(round.breakdown, work.breakdown(all));
    }
    round.measured = Median(std::move(seconds));
    if (world.rank() == 0) rounds.push_back(round);
  }
  return absl::OkStatus();
}

void Compare(benchmark::State& state, const WorkMaker& make) {
  RankStopwatch stopwatch(kRanks);
  std::vector<Round> rounds;
  const absl::Status status = RunLocalRanks(
      kRanks, [&](Communicator& world) { return RunRank(make, world, stopwatch, rounds); });
  if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  std::sort(rounds.begin(), rounds.end(), [](const Round& a, const Round& b) {
    return a.planned / a.measured < b.planned / b.measured;
  });
  const Round& middle = rounds[rounds.size() / 2];
  if (!middle.breakdown.empty()) std::printf("\n%s\n", middle.breakdown.c_str());
  for (auto _ : state) state.SetIterationTime(middle.measured);
  state.counters["planned_ms"] = 1e3 * middle.planned;
  state.counters["ratio_to_floor"] = middle.planned / middle.measured;
  state.counters["least_ratio"] = rounds.front().planned / rounds.front().measured;
  state.counters["greatest_ratio"] = rounds.back().planned / rounds.back().measured;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> BuildModel() {
  ZEROTH_ASSIGN_OR_RETURN(nlohmann::json config, PresetConfig("gpt2_124m"));
  config["vocab_size"] = 50304;
  return ModelRegistry::Create(config);
}

// Returns the options of train_step's runs.
TrainOptions StepOptions(const std::string& strategy, const std::string& dtype) {
  TrainOptions options;
  options.data = "none";
  options.strategy = strategy;
  options.param_dtype = *ParseDType(dtype);
  options.comm = "local";
  options.world_size = kRanks;
  options.threads_per_rank = 1;
  options.batch_size = 4;
  options.seq_len = 256;
  return options;
}

// A rank's trainer, and its times by operation if they are wanted.
struct StepRunner {
  Timeline timeline;
  std::unique_ptr<Trainer> trainer;
  std::vector<Batch> batches;
  Plan plan;                              // of the current round; rank 0's
  std::unique_ptr<OperationTimes> times;  // null: not wanted
  int64_t steps = 0;                      // since Clear
  double waited = 0;                      // for collectives, in these steps

  absl::Status Step() {
    ZEROTH_ASSIGN_OR_RETURN(const StepResult result, trainer->Step(batches, 1e-4));
    ++steps;
    waited += result.waited.value_or(0);
    return absl::OkStatus();
  }
  // Starts a new measurement.
  void Clear() {
    steps = 0;
    waited = 0;
    if (times != nullptr) times->Take();
  }
};

absl::StatusOr<Work> StepWork(const TrainOptions& options, Communicator& world, Device& device) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, BuildModel());
  const auto runner = std::make_shared<StepRunner>();
  ZEROTH_ASSIGN_OR_RETURN(runner->trainer,
                          Trainer::Create(world, device, std::move(model),
                                          TrainerOptionsFor(options, &runner->timeline)));
  ZEROTH_RETURN_IF_ERROR(runner->trainer->sharding().Initialize(1));
  Batch batch;
  batch.batch = options.batch_size;
  batch.seq = options.seq_len;
  for (int64_t i = 0; i < batch.batch * batch.seq; ++i) {
    batch.inputs.push_back(static_cast<int32_t>((i * 7919 + world.rank() * 104729) % 50304));
    batch.targets.push_back(batch.inputs.back());
  }
  runner->batches.push_back(std::move(batch));
  Work work;
  work.times = 3;
  work.run = [runner] { return runner->Step(); };
  work.planned = [options, runner](const Machine& machine) -> absl::StatusOr<double> {
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> planned, BuildModel());
    ZEROTH_ASSIGN_OR_RETURN(runner->plan, PlanRun(options, machine, std::move(planned)));
    runner->Clear();
    return runner->plan.step_seconds;
  };
  if (!absl::GetFlag(FLAGS_breakdown) || world.rank() != 0) return work;
  runner->times = std::make_unique<OperationTimes>(runner->trainer->kernels());
  work.breakdown = [runner](double seconds) -> absl::StatusOr<std::string> {
    StepTimes times;
    times.steps = runner->steps;
    times.seconds = seconds;
    times.operations = runner->times->Take();
    times.waited = runner->waited;
    return BreakdownText(times, runner->plan);
  };
  return work;
}

void BM_PlannedStep(benchmark::State& state, const char* strategy, const char* dtype) {
  const TrainOptions options = StepOptions(strategy, dtype);
  Compare(state,
          [&](Communicator& world, Device& device) { return StepWork(options, world, device); });
}

absl::StatusOr<Tensor> FullBuffer(Device& device, int64_t mebibytes) {
  return Tensor::Zeros(device, Shape({(mebibytes << 20) / int64_t{sizeof(float)}}), DType::kFloat32,
                       MemoryCategory::kCommunication);
}

void CompareCollective(benchmark::State& state, CollectiveOp op) {
  const int64_t mebibytes = state.range(0);
  Compare(state, [&](Communicator& world, Device& device) -> absl::StatusOr<Work> {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor full, FullBuffer(device, mebibytes));
    Work work;
    work.rounds = 15;
    work.times = 30;
    work.run = [&world, &device, op, full] {
      return RunCollective(op, world, full, device.compute_stream());
    };
    work.planned = [op, mebibytes](Machine machine) -> absl::StatusOr<double> {
      machine.devices_per_node = kRanks;
      PlannedDevice planned(machine, DeviceOptions());
      ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<PlannedCommunicator> ranks,
                              PlannedCommunicator::CreateWorld(machine, kRanks, 0, {}));
      ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer, FullBuffer(planned, mebibytes));
      WorkLedger& ledger = planned.ledger();
      ledger.Clear();
      ZEROTH_RETURN_IF_ERROR(RunCollective(op, *ranks, buffer, planned.compute_stream()));
      ledger.Run();
      double seconds = 0;
      for (const WorkLedger::Entry& entry : ledger.entries()) {
        seconds = std::max(seconds, entry.end);
      }
      return seconds;
    };
    return work;
  });
}

void BM_PlannedAllGather(benchmark::State& state) {
  CompareCollective(state, CollectiveOp::kAllGather);
}
void BM_PlannedReduceScatter(benchmark::State& state) {
  CompareCollective(state, CollectiveOp::kReduceScatter);
}
void BM_PlannedAllReduce(benchmark::State& state) {
  CompareCollective(state, CollectiveOp::kAllReduce);
}

#define ZEROTH_PLANNED_STEP(strategy, dtype)                               \
  BENCHMARK_CAPTURE(BM_PlannedStep, strategy##_##dtype, #strategy, #dtype) \
      ->UseManualTime()                                                    \
      ->Iterations(1)                                                      \
      ->Unit(benchmark::kMillisecond)

ZEROTH_PLANNED_STEP(no_shard, fp32);
ZEROTH_PLANNED_STEP(shard_grad_op, fp32);
ZEROTH_PLANNED_STEP(full_shard, fp32);
ZEROTH_PLANNED_STEP(no_shard, bf16);
ZEROTH_PLANNED_STEP(full_shard, bf16);

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("MiB")->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
  for (int mebibytes : {1, 4, 16, 64}) benchmark->Arg(mebibytes);
}

BENCHMARK(BM_PlannedAllGather)->Apply(Sizes);
BENCHMARK(BM_PlannedReduceScatter)->Apply(Sizes);
BENCHMARK(BM_PlannedAllReduce)->Apply(Sizes);

}  // namespace
}  // namespace zeroth
