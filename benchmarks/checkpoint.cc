// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of a whole training state (parameters and both moments in fp32) by 4 ranks under
// full_shard. They are compared with a plain transfer of as many bytes, the floor. Each round
// measures the floor before and after the checkpoint, because the speed of disks varies.
//
//   --model=NAME      a preset; its state, gradients and one copy of the state must fit into memory
//   --directory=PATH  where checkpoints are written and removed
//
// ratio_to_floor is the median over rounds of the floor's time divided by the checkpoint's; 1 is
// the floor. Each benchmark describes its floor.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/benchmarks/rank_stopwatch.h"
#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/checkpoint/sharded/checkpoint_saver.h"
#include "zeroth/checkpoint/sharded/shard_writer.h"
#include "zeroth/checkpoint/sharded/training_state.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/optim/replica_check.h"

ABSL_FLAG(std::string, model, "gpt2_355m", "The preset whose state is saved.");
ABSL_FLAG(std::string, directory, std::filesystem::temp_directory_path().string(),
          "Where checkpoints are written, and removed.");

namespace zeroth {
namespace {

constexpr int kRanks = 4;
constexpr int kRounds = 5;
// Tokens in a rank's batch. Few suffice, since a step need only be long compared with its noise.
constexpr int64_t kSeq = 64;

// The floors: the time to move the same number of bytes by the simplest means.

// Returns the seconds that the program `dd` needs to write `bytes` of zeros, rounded up to blocks
// of 8 MiB, to a new file in `directory`, flushed to stable storage. It bypasses the page cache if
// `direct`. The file is then removed, which is not timed.
absl::StatusOr<double> TimeDd(const std::string& directory, int64_t bytes, bool direct) {
  constexpr int64_t kBlockBytes = int64_t{8} << 20;
  const std::string path = absl::StrCat(directory, "/dd");
  const std::string command =
      absl::StrCat("dd if=/dev/zero of='", absl::StrReplaceAll(path, {{"'", "'\\''"}}),
                   "' bs=", kBlockBytes, " count=", (bytes + kBlockBytes - 1) / kBlockBytes,
                   " conv=fsync status=none", direct ? " oflag=direct" : "");
  const auto start = std::chrono::steady_clock::now();
  const int status = std::system(command.c_str());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  unlink(path.c_str());
  if (status == 0) return seconds.count();
  return absl::InternalError(absl::StrCat("dd ended with status ", status));
}

// A destination for copies of any size: a window of resident memory, too large for caches, that is
// overwritten again and again.
class CopyTarget {
 public:
  void Copy(absl::Span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const size_t count = std::min(bytes.size(), window_.size() - place_);
      std::memcpy(window_.data() + place_, bytes.data(), count);
      place_ = (place_ + count) % window_.size();
      bytes.remove_prefix(count);
    }
  }

 private:
  std::vector<uint8_t> window_ = std::vector<uint8_t>(size_t{256} << 20, 1);
  size_t place_ = 0;
};

// Fills `memory` with the file's first bytes, by read(2). OutOfRange if the file is shorter.
absl::Status ReadFileInto(const std::string& path, const std::vector<absl::Span<uint8_t>>& memory) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  absl::Status status;
  for (absl::Span<uint8_t> part : memory) {
    while (!part.empty() && status.ok()) {
      const ssize_t count = read(fd, part.data(), std::min(size_t{8} << 20, part.size()));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) status = ErrnoStatus(errno, absl::StrCat("read ", path));
      if (count == 0) status = absl::OutOfRangeError(absl::StrCat(path, " is too short"));
      if (count > 0) part.remove_prefix(static_cast<size_t>(count));
    }
  }
  close(fd);
  return status;
}

// Seconds of one round. Floors are measured before and after, and averaged.
struct Round {
  double work = 0;
  double floor = 0;
  double other = 0;  // a second floor, if there is one
};

// The state that all ranks share.
struct Run {
  std::string directory;
  int64_t bytes = 0;  // of the state, over all ranks; set by rank 0
  RankStopwatch stopwatch{kRanks};
  std::vector<Round> rounds;  // set by rank 0
};

// One rank's training.
struct Training {
  Run& run;
  Communicator& world;
  std::shared_ptr<Device> device;
  std::unique_ptr<Trainer> trainer;
  Batch batch;

  Stream& stream() const { return device->compute_stream(); }
  // Returns the seconds in which all ranks do `work`.
  absl::StatusOr<double> Time(const std::function<absl::Status()>& work) const {
    return run.stopwatch.Time(world, stream(), work);
  }
  absl::Status Step() const { return trainer->Step(batch, 1e-4).status(); }
  std::vector<StatePiece> Pieces() const {
    return OwnedPieces(trainer->sharding(), *trainer->states());
  }
};

absl::StatusOr<Training> MakeTraining(Run& run, Communicator& world) {
  Training training{run, world, nullptr, nullptr, {}};
  ZEROTH_ASSIGN_OR_RETURN(training.device, DeviceRegistry::Create("cpu", DeviceOptions()));
  training.device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config, PresetConfig(absl::GetFlag(FLAGS_model)));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, ModelRegistry::Create(config));
  TrainerOptions options;
  options.sharding.strategy = "full_shard";
  ZEROTH_ASSIGN_OR_RETURN(training.trainer,
                          Trainer::Create(world, *training.device, std::move(model), options));
  ZEROTH_RETURN_IF_ERROR(training.trainer->sharding().Initialize(1));
  training.batch.batch = 1;
  training.batch.seq = kSeq;
  training.batch.inputs.assign(kSeq, 11);
  training.batch.targets.assign(kSeq, 17 + world.rank());
  return training;
}

absl::StatusOr<std::unique_ptr<CheckpointSaver>> MakeSaver(const Training& training, bool async) {
  CheckpointSaverOptions options;
  options.directory = absl::StrCat(training.run.directory, "/run");
  options.retention.keep_last = 0;
  options.async = async;
  options.host_buffers = 1;
  return CheckpointSaver::Create(training.world, *training.device, options);
}

// Runs `work` on rank 0, while the others wait.
absl::Status OnLeader(const Training& training, const std::function<absl::Status()>& work) {
  absl::Status status;
  if (training.world.rank() == 0) status = work();
  ZEROTH_RETURN_IF_ERROR(training.world.Barrier(training.stream(), "work of rank 0"));
  return status;
}

// Removes the checkpoint and flushes, so that the disk has no earlier work left.
absl::Status RemoveCheckpoint(const Training& training, int64_t step) {
  return OnLeader(training, [&]() -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(DeleteCheckpoint(absl::StrCat(training.run.directory, "/run"), step));
    sync();
    return absl::OkStatus();
  });
}

absl::Status TimeWriting(const Training& training, double& buffered, double& direct) {
  return OnLeader(training, [&]() -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(buffered,
                            TimeDd(training.run.directory, training.run.bytes, /*direct=*/false));
    sync();
    // Not every file system supports this; the column is then empty.
    direct = TimeDd(training.run.directory, training.run.bytes, /*direct=*/true).value_or(0);
    sync();
    return absl::OkStatus();
  });
}

// Measures saves. The floor is dd of as many bytes to the same directory, flushed.
// ratio_to_direct_dd compares with a dd that bypasses the page cache, which shows the disk's own
// speed.
absl::Status MeasureSave(const Training& training) {
  ZEROTH_ASSIGN_OR_RETURN(const auto saver, MakeSaver(training, /*async=*/false));
  double buffered = 0;
  double direct = 0;
  ZEROTH_RETURN_IF_ERROR(TimeWriting(training, buffered, direct));
  for (int step = 1; step <= kRounds; ++step) {
    Round round{0, buffered / 2, direct / 2};
    ZEROTH_ASSIGN_OR_RETURN(round.work, training.Time([&] {
      return saver->Save(step, nlohmann::json::object(), training.Pieces()).status();
    }));
    ZEROTH_RETURN_IF_ERROR(RemoveCheckpoint(training, step));
    ZEROTH_RETURN_IF_ERROR(TimeWriting(training, buffered, direct));
    round.floor += buffered / 2;
    round.other += direct / 2;
    if (training.world.rank() == 0) training.run.rounds.push_back(round);
  }
  return absl::OkStatus();
}

// Returns the memory of this rank's state.
std::vector<absl::Span<uint8_t>> StateMemory(const Training& training) {
  std::vector<absl::Span<uint8_t>> memory;
  for (const StatePiece& piece : training.Pieces()) {
    const auto size = static_cast<int64_t>(SizeOf(piece.shard.dtype()));
    auto* const data = static_cast<uint8_t*>(piece.shard.tensor().raw_data());
    memory.push_back(
        absl::MakeSpan(data + piece.shard_begin * size, static_cast<size_t>(piece.bytes())));
  }
  return memory;
}

absl::Status CopyState(const Training& training, CopyTarget& target) {
  for (const absl::Span<uint8_t> piece : StateMemory(training)) target.Copy(piece);
  return absl::OkStatus();
}

// Measures by how much a save in the background prolongs the step in which it starts. The floor is
// a copy of the state in memory by all ranks.
absl::Status MeasureAsyncSave(const Training& training) {
  ZEROTH_ASSIGN_OR_RETURN(const auto saver, MakeSaver(training, /*async=*/true));
  CopyTarget target;
  const auto step = [&] { return training.Step(); };
  // The first step touches all memory and records the order of units.
  ZEROTH_RETURN_IF_ERROR(step());
  ZEROTH_ASSIGN_OR_RETURN(double undisturbed, training.Time(step));
  // The first save allocates the copy's memory.
  for (int number = 0; number <= kRounds; ++number) {
    Round round{0, 0, undisturbed / 2};
    ZEROTH_ASSIGN_OR_RETURN(round.floor,
                            training.Time([&] { return CopyState(training, target); }));
    ZEROTH_ASSIGN_OR_RETURN(const double disturbed, training.Time([&]() -> absl::Status {
      ZEROTH_RETURN_IF_ERROR(
          saver->Save(number, nlohmann::json::object(), training.Pieces()).status());
      return training.Step();
    }));
    ZEROTH_RETURN_IF_ERROR(saver->Wait());
    ZEROTH_RETURN_IF_ERROR(RemoveCheckpoint(training, number));
    ZEROTH_ASSIGN_OR_RETURN(undisturbed, training.Time(step));
    round.other += undisturbed / 2;
    round.work = disturbed - round.other;
    if (training.world.rank() == 0 && number > 0) training.run.rounds.push_back(round);
  }
  return absl::OkStatus();
}

// Measures the comparison of replicas before each save, which hashes the state and gathers every
// unit. The floor is a copy of the state in memory.
absl::Status MeasureReplicaCheck(const Training& training) {
  CopyTarget target;
  for (int number = 0; number <= kRounds; ++number) {
    Round round;
    ZEROTH_ASSIGN_OR_RETURN(round.work, training.Time([&] {
      return CheckReplicas(training.trainer->sharding(), *training.trainer->states());
    }));
    ZEROTH_ASSIGN_OR_RETURN(round.floor,
                            training.Time([&] { return CopyState(training, target); }));
    // The first comparison allocates.
    if (training.world.rank() == 0 && number > 0) training.run.rounds.push_back(round);
  }
  return absl::OkStatus();
}

// Measures loads. The floor is read(2) of the same files from the page cache into the same memory,
// by as many threads.
absl::Status MeasureLoad(const Training& training) {
  ZEROTH_ASSIGN_OR_RETURN(const auto saver, MakeSaver(training, /*async=*/false));
  ZEROTH_RETURN_IF_ERROR(saver->Save(1, nlohmann::json::object(), training.Pieces()).status());
  const std::string path = CheckpointPath(absl::StrCat(training.run.directory, "/run"), 1);
  const std::string mine = absl::StrCat(path, "/", ShardFileName(training.world.rank(), kRanks));
  const auto read = [&] {
    return training.Time([&] { return ReadFileInto(mine, StateMemory(training)); });
  };
  // This read brings the files into the page cache.
  ZEROTH_RETURN_IF_ERROR(read().status());
  ZEROTH_ASSIGN_OR_RETURN(double floor, read());
  for (int number = 0; number < kRounds; ++number) {
    Round round{0, floor / 2, 0};
    ZEROTH_ASSIGN_OR_RETURN(round.work, training.Time([&]() -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(path));
      return LoadState(*reader, training.trainer->sharding(), *training.trainer->states()).status();
    }));
    ZEROTH_ASSIGN_OR_RETURN(floor, read());
    round.floor += floor / 2;
    if (training.world.rank() == 0) training.run.rounds.push_back(round);
  }
  return absl::OkStatus();
}

using Measure = absl::Status (*)(const Training& training);

double MedianOf(const Run& run, const std::function<double(const Round&)>& value) {
  std::vector<double> values;
  for (const Round& round : run.rounds) values.push_back(value(round));
  return Median(std::move(values));
}

// Returns false if it failed. Otherwise the caller may set further counters.
bool RunBenchmark(benchmark::State& state, const Measure& measure, Run& run) {
  const TemporaryDirectory directory(absl::GetFlag(FLAGS_directory));
  run.directory = directory.path();
  const absl::Status status = RunLocalRanks(kRanks, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Training training, MakeTraining(run, world));
    if (world.rank() == 0) {
      int64_t mine = 0;
      for (const StatePiece& piece : training.Pieces()) mine += piece.bytes();
      // The ranks' shards are equal, except for padding.
      run.bytes = mine * kRanks;
    }
    return measure(training);
  });
  if (!status.ok()) {
    state.SkipWithError(status.ToString().c_str());
    return false;
  }
  size_t number = 0;
  for (auto _ : state) state.SetIterationTime(std::max(0.0, run.rounds[number++].work));
  state.SetBytesProcessed(run.bytes * kRounds);
  state.counters["floor_s"] = MedianOf(run, [](const Round& round) { return round.floor; });
  state.counters["ratio_to_floor"] =
      MedianOf(run, [](const Round& round) { return round.floor / round.work; });
  return true;
}

void BM_Save(benchmark::State& state) {
  Run run;
  if (!RunBenchmark(state, MeasureSave, run)) return;
  state.counters["ratio_to_direct_dd"] =
      MedianOf(run, [](const Round& round) { return round.other / round.work; });
}

void BM_AsyncSave(benchmark::State& state) {
  Run run;
  if (!RunBenchmark(state, MeasureAsyncSave, run)) return;
  state.counters["step_s"] = MedianOf(run, [](const Round& round) { return round.other; });
  state.counters["beyond_the_copy_%_of_step"] = MedianOf(
      run, [](const Round& round) { return 100 * (round.work - round.floor) / round.other; });
}

void BM_ReplicaCheck(benchmark::State& state) {
  Run run;
  RunBenchmark(state, MeasureReplicaCheck, run);
}

void BM_Load(benchmark::State& state) {
  Run run;
  RunBenchmark(state, MeasureLoad, run);
}

void Rounds(benchmark::internal::Benchmark* benchmark) {
  benchmark->Iterations(kRounds)->UseManualTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(BM_Save)->Apply(Rounds);
BENCHMARK(BM_AsyncSave)->Apply(Rounds);
BENCHMARK(BM_ReplicaCheck)->Apply(Rounds);
BENCHMARK(BM_Load)->Apply(Rounds);

}  // namespace
}  // namespace zeroth
