// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of watching a run. Steps of the trainer's default run, which watches waits and
// stragglers and writes metrics.jsonl and TensorBoard files, alternate with steps of the same
// training without these. ratio_to_floor is the time of a step without watching divided by that of
// a step with it.
//
// Two features cannot be switched off. The flight recorder keeps the latest calls of each
// communicator; its time for the calls of a step is compared with the step. Replicas are compared
// before checkpoints; the time of one comparison is compared with a step.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"

#include "zeroth/api/trainer.h"
#include "zeroth/benchmarks/rank_stopwatch.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/comm_stats.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/data/loader.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/optim/replica_check.h"
#include "zeroth/options/options.h"
#include "zeroth/options/trainer_options.h"
#include "zeroth/train/metrics.h"
#include "zeroth/train/reporter.h"
#include "zeroth/train/run_input.h"
#include "zeroth/train/run_spec.h"

namespace zeroth {
namespace {

constexpr int kRanks = 2;
constexpr int kPairs = 60;
constexpr int kChecks = 9;

struct Seconds {
  double wall = 0;
  double processor = 0;  // of rank 0's thread, on which other load has little effect
};

struct Pair {
  Seconds with;
  Seconds without;
};

// The state that all ranks share; rank 0 fills it.
struct Run {
  const RunSpec& spec;
  const RunInput& input;
  RankStopwatch stopwatch{kRanks};
  std::vector<Pair> pairs = {};
  std::vector<double> checks = {};   // seconds of a comparison of replicas
  std::vector<double> reports = {};  // processor time in which rank 0 reports a step
  double calls = 0;                  // of communicators, in a step of one rank
};

double ThreadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Batch MakeBatch(const TrainOptions& options, int rank) {
  Batch batch;
  batch.batch = options.batch_size;
  batch.seq = options.seq_len;
  for (int64_t i = 0; i < batch.batch * batch.seq; ++i) {
    batch.inputs.push_back(static_cast<int32_t>((i * 31 + rank) % 256));
    batch.targets.push_back(static_cast<int32_t>((i * 31 + rank + 31) % 256));
  }
  return batch;
}

absl::StatusOr<std::unique_ptr<Trainer>> MakeTrainer(const Run& run, Communicator& world,
                                                     Device& device, Timeline* timeline) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, run.input.source.Build());
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, device, std::move(model),
                                          TrainerOptionsFor(run.spec.options, timeline)));
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().Initialize(1));
  return trainer;
}

// One rank's training, monitored as in the trainer.
class MonitoredTraining {
 public:
  MonitoredTraining(Run& run, Trainer& trainer, std::unique_ptr<Reporter> reporter)
      : run_(run), trainer_(trainer), reporter_(std::move(reporter)) {}

  absl::Status Step(absl::Span<const Batch> batches) {
    const auto start = std::chrono::steady_clock::now();
    ZEROTH_ASSIGN_OR_RETURN(const StepResult result, trainer_.Step(batches, 1e-4));
    if (reporter_ == nullptr) return absl::OkStatus();
    const double before = ThreadSeconds();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    StepMetrics metrics;
    metrics.step = ++step_;
    metrics.loss = result.loss;
    metrics.grad_norm = result.grad_norm;
    metrics.lr = 1e-4;
    metrics.tokens_per_second =
        static_cast<double>(TokensPerStep(run_.spec.options)) / taken.count();
    metrics.communication_seconds = result.waited;
    metrics.memory_peak_bytes = trainer_.sharding().stats().memory.total.peak_bytes;
    reporter_->Step(metrics, result.waited_before, 0);
    run_.reports.push_back(ThreadSeconds() - before);
    return absl::OkStatus();
  }

 private:
  Run& run_;
  Trainer& trainer_;
  const std::unique_ptr<Reporter> reporter_;  // rank 0's
  int64_t step_ = 0;
};

double CallsOf(Trainer& trainer) {
  double calls = 0;
  for (const CommStats::Counter& counter : trainer.sharding().stats().collectives) {
    calls += static_cast<double>(counter.calls);
  }
  return calls;
}

absl::Status RunRank(Run& run, Communicator& world) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  Timeline timeline;
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> with,
                          MakeTrainer(run, world, *device, &timeline));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> without,
                          MakeTrainer(run, world, *device, nullptr));
  std::unique_ptr<Reporter> reporter;
  if (world.rank() == 0) {
    ZEROTH_ASSIGN_OR_RETURN(reporter,
                            Reporter::Create(run.spec, run.input, *with, run.spec.options.out,
                                             /*gemm_rate=*/1e11, 0, run.input.length.steps));
  }
  MonitoredTraining monitored(run, *with, std::move(reporter));
  const std::vector<Batch> batches = {MakeBatch(run.spec.options, world.rank())};
  const std::function<absl::Status()> step_with = [&] { return monitored.Step(batches); };
  const std::function<absl::Status()> step_without = [&] {
    return without->Step(batches, 1e-4).status();
  };
  const auto time = [&](const std::function<absl::Status()>& step) -> absl::StatusOr<Seconds> {
    Seconds seconds;
    const auto timed = [&]() -> absl::Status {
      const double before = ThreadSeconds();
      ZEROTH_RETURN_IF_ERROR(step());
      seconds.processor = ThreadSeconds() - before;
      return absl::OkStatus();
    };
    ZEROTH_ASSIGN_OR_RETURN(seconds.wall,
                            run.stopwatch.Time(world, device->compute_stream(), timed));
    return seconds;
  };
  // The first steps touch all memory and record the order of units.
  for (int i = 0; i < 3; ++i) {
    ZEROTH_RETURN_IF_ERROR(step_with());
    ZEROTH_RETURN_IF_ERROR(step_without());
  }
  const double calls_before = CallsOf(*with);
  for (int i = 0; i < kPairs; ++i) {
    Pair pair;
    // The two take turns in running first.
    for (const bool is_watched : {i % 2 == 0, i % 2 != 0}) {
      Seconds& seconds = is_watched ? pair.with : pair.without;
      ZEROTH_ASSIGN_OR_RETURN(seconds, time(is_watched ? step_with : step_without));
    }
    if (world.rank() == 0) run.pairs.push_back(pair);
  }
  if (world.rank() == 0) run.calls = (CallsOf(*with) - calls_before) / kPairs;
  for (int i = 0; i <= kChecks; ++i) {
    ZEROTH_ASSIGN_OR_RETURN(const Seconds check, time([&]() -> absl::Status {
                              ZEROTH_ASSIGN_OR_RETURN(const std::vector<ShardState> states,
                                                      with->states());
                              return CheckReplicas(with->sharding(), states);
                            }));
    // The first comparison allocates.
    if (world.rank() == 0 && i > 0) run.checks.push_back(check.wall);
  }
  return absl::OkStatus();
}

// Returns the seconds that the flight recorder needs for one call of a communicator.
double SecondsOfACall() {
  constexpr int kCalls = 20000;
  CommStats stats;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) {
    stats.Add(CollectiveOp::kAllGather, i, "transformer.h.1");
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / kCalls;
}

// Returns the trainer's default run, in a separate directory.
absl::StatusOr<RunSpec> DefaultRun(const TemporaryDirectory& directory) {
  TrainOptions options;
  std::string text;
  for (int i = 0; i < 4000; ++i) absl::StrAppend(&text, i, " is followed by ", i + 1, ".\n");
  options.data = directory.Write("text.txt", text);
  options.out = directory.path();
  options.comm = "local";
  options.world_size = kRanks;
  options.threads_per_rank = 1;
  options.steps = 1000;
  // Lines on a terminal are not part of the comparison.
  options.log_every = options.steps;
  return ResolveRun(options);
}

void Report(const Run& run, benchmark::State& state) {
  const auto of_pairs = [&](const std::function<double(const Pair&)>& value, double part) {
    std::vector<double> values;
    for (const Pair& pair : run.pairs) values.push_back(value(pair));
    return Quantile(std::move(values), part);
  };
  const auto overhead = [](const Pair& pair) {
    return 100 * (pair.with.wall / pair.without.wall - 1);
  };
  const auto overhead_of_cpu_time = [](const Pair& pair) {
    return 100 * (pair.with.processor / pair.without.processor - 1);
  };
  const double step = of_pairs([](const Pair& pair) { return pair.without.wall; }, 0.5);
  for (auto _ : state) state.SetIterationTime(step);
  state.counters["overhead_%"] = of_pairs(overhead, 0.5);
  state.counters["overhead_%_quarter"] = of_pairs(overhead, 0.25);
  state.counters["overhead_%_three_quarters"] = of_pairs(overhead, 0.75);
  state.counters["cpu_overhead_%"] = of_pairs(overhead_of_cpu_time, 0.5);
  state.counters["cpu_overhead_%_quarter"] = of_pairs(overhead_of_cpu_time, 0.25);
  state.counters["cpu_overhead_%_three_quarters"] = of_pairs(overhead_of_cpu_time, 0.75);
  const double cpu_step = of_pairs([](const Pair& pair) { return pair.without.processor; }, 0.5);
  state.counters["reporting_cpu_%"] = 100 * Quantile(run.reports, 0.5) / cpu_step;
  state.counters["ratio_to_floor"] = 1 / (1 + of_pairs(overhead, 0.5) / 100);
  state.counters["flight_recorder_%"] = 100 * run.calls * SecondsOfACall() / step;
  state.counters["replica_check_%"] = 100 * Quantile(run.checks, 0.5) / step;
}

void BM_Watching(benchmark::State& state) {
  const TemporaryDirectory directory;
  const absl::StatusOr<RunSpec> spec = DefaultRun(directory);
  if (!spec.ok()) return state.SkipWithError(spec.status().ToString().c_str());
  const absl::StatusOr<RunInput> input = OpenInput(*spec);
  if (!input.ok()) return state.SkipWithError(input.status().ToString().c_str());
  Run run{.spec = *spec, .input = *input};
  const absl::Status status =
      RunLocalRanks(kRanks, [&](Communicator& world) { return RunRank(run, world); });
  if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  Report(run, state);
}

BENCHMARK(BM_Watching)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace zeroth
