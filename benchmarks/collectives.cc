// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Collectives between threads of one process, each compared with the time in which as many threads
// move the same number of bytes with memcpy at the same moment.
//
// Arguments: ranks, MiB of the full buffer (all ranks' pieces together). Columns: bytes_per_second
// is a rank's send rate in the bandwidth-optimal algorithm; copy_GB/s is the rate of one thread
// while all copy; ratio_to_floor the copies' time over the collective's, the best of each, 1 being
// the floor. Reductions may exceed it, because they read more than they write and writes cost more.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"

#include "zeroth/benchmarks/rank_stopwatch.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {
namespace {

// Returns the best of many, because other programs on the machine can only make a measurement
// worse.
double Best(const std::vector<double>& seconds) {
  return seconds.empty() ? 0.0 : *std::min_element(seconds.begin(), seconds.end());
}

// One rank's buffers. The floor has separate buffers, so that floor and collective do not warm the
// cache for each other.
struct RankBuffers {
  Tensor full;
  Tensor copy_from;
  Tensor copy_to;
};

struct Case {
  CollectiveOp op;
  // The bytes that a rank must read and write in total, as a multiple of its piece of the buffer.
  int64_t pieces_moved;
};

absl::StatusOr<Tensor> Touched(Device& device, int64_t count) {
  return Tensor::FromHost<float>(device, Shape({count}),
                                 std::vector<float>(static_cast<size_t>(count), 1.0f),
                                 MemoryCategory::kCommunication);
}

absl::StatusOr<RankBuffers> Allocate(Device& device, int64_t full_count, int64_t copy_count) {
  RankBuffers buffers;
  ZEROTH_ASSIGN_OR_RETURN(buffers.full, Touched(device, full_count));
  ZEROTH_ASSIGN_OR_RETURN(buffers.copy_from, Touched(device, copy_count));
  ZEROTH_ASSIGN_OR_RETURN(buffers.copy_to, Touched(device, copy_count));
  return buffers;
}

absl::Status Copy(const RankBuffers& buffers) {
  std::memcpy(buffers.copy_to.raw_data(), buffers.copy_from.raw_data(), buffers.copy_to.bytes());
  benchmark::ClobberMemory();
  return absl::OkStatus();
}

struct Times {
  std::vector<double> collective;
  std::vector<double> copy;
};

// The state that the ranks of one case share.
struct Run {
  const Case& test;
  int64_t full_bytes;
  std::function<bool()> keep_running;  // called by rank 0; the others read `more`
  std::atomic<bool> more{true};
  RankStopwatch stopwatch;
  Times times;  // kept by rank 0
};

absl::Status RunRank(Communicator& world, Run& run) {
  ZEROTH_ASSIGN_OR_RETURN(const auto device, DeviceRegistry::Create("cpu", DeviceOptions()));
  Stream& stream = device->compute_stream();
  const int64_t full_count = run.full_bytes / static_cast<int64_t>(sizeof(float));
  const int64_t piece = full_count / world.size();
  // A copy of b bytes moves 2 b.
  ZEROTH_ASSIGN_OR_RETURN(const RankBuffers buffers,
                          Allocate(*device, full_count, piece * run.test.pieces_moved / 2));
  const auto collective = [&] { return RunCollective(run.test.op, world, buffers.full, stream); };
  const auto copy = [&] { return Copy(buffers); };
  for (int warm_up = 0; warm_up < 2; ++warm_up) {
    ZEROTH_RETURN_IF_ERROR(collective());
    ZEROTH_RETURN_IF_ERROR(copy());
  }
  while (true) {
    if (world.rank() == 0) run.more = run.keep_running();
    ZEROTH_RETURN_IF_ERROR(world.Barrier(stream, "next"));
    if (!run.more) return absl::OkStatus();
    ZEROTH_ASSIGN_OR_RETURN(const double collective_time,
                            run.stopwatch.Time(world, stream, collective));
    ZEROTH_ASSIGN_OR_RETURN(const double copy_time, run.stopwatch.Time(world, stream, copy));
    if (world.rank() == 0) {
      run.times.collective.push_back(collective_time);
      run.times.copy.push_back(copy_time);
    }
  }
}

void RunCase(benchmark::State& state, const Case& test) {
  const int ranks = static_cast<int>(state.range(0));
  const int64_t full_bytes = state.range(1) << 20;
  Run run{.test = test,
          .full_bytes = full_bytes,
          .keep_running = nullptr,
          .stopwatch = RankStopwatch(ranks),
          .times = {}};
  run.keep_running = [&] {
    if (!run.times.collective.empty()) state.SetIterationTime(run.times.collective.back());
    return state.KeepRunning();
  };
  const absl::Status status =
      RunLocalRanks(ranks, [&run](Communicator& world) { return RunRank(world, run); });
  if (!status.ok()) {
    state.SkipWithError(status.ToString().c_str());
    return;
  }
  const double copied_bytes = static_cast<double>(full_bytes / ranks * test.pieces_moved) / 2;
  const double best_copy = Best(run.times.copy);
  const double best_collective = Best(run.times.collective);
  state.SetBytesProcessed(static_cast<int64_t>(run.times.collective.size()) *
                          CollectiveBytes(test.op, full_bytes, ranks));
  state.counters["copy_GB/s"] = copied_bytes / best_copy / 1e9;
  state.counters["ratio_to_floor"] = best_copy / best_collective;
}

// Gathers in place: a rank reads n - 1 pieces and writes as many.
void BM_AllGather(benchmark::State& state) {
  RunCase(state, {CollectiveOp::kAllGather, 2 * (state.range(0) - 1)});
}

// Reduces in place: a rank reads n pieces and writes one.
void BM_ReduceScatter(benchmark::State& state) {
  RunCase(state, {CollectiveOp::kReduceScatter, state.range(0) + 1});
}

// A rank reads its piece of n buffers and writes it to all of them.
void BM_AllReduce(benchmark::State& state) {
  RunCase(state, {CollectiveOp::kAllReduce, 2 * state.range(0)});
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"ranks", "MiB"})->UseManualTime()->Unit(benchmark::kMicrosecond);
  for (int ranks : {2, 4}) {
    for (int mebibytes : {1, 4, 16, 64}) benchmark->Args({ranks, mebibytes});
  }
}

BENCHMARK(BM_AllGather)->Apply(Sizes);
BENCHMARK(BM_ReduceScatter)->Apply(Sizes);
BENCHMARK(BM_AllReduce)->Apply(Sizes);

}  // namespace
}  // namespace zeroth
