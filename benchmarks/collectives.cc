// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Collectives between threads of one process, each held against the time that the same number of
// threads need to move the same number of bytes with memcpy at the same moment.
//
// Arguments: ranks, MiB of the full buffer (what all ranks' pieces make together). Columns:
// bytes_per_second is what a rank sends in the bandwidth-optimal algorithm; copy_GB/s what one
// thread copies while the others do; ratio_to_floor the copies' time over the collective's, the
// best of each, 1 being the floor. Reductions may exceed it, because they read more than they write
// and writes cost more.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The best of many, because other programs on the machine can only make a measurement worse.
double Best(const std::vector<double>& seconds) {
  return seconds.empty() ? 0.0 : *std::min_element(seconds.begin(), seconds.end());
}

// One rank's buffers. The floor copies between its own, so that it and the collective do not warm
// each other's cache.
struct RankBuffers {
  Tensor full;
  Tensor copy_from;
  Tensor copy_to;
};

using Collective = std::function<absl::Status(Communicator&, const RankBuffers&, Stream&)>;

struct Case {
  CollectiveOp op;
  Collective call;
  // Bytes that a rank must read and write in all, as a multiple of its piece of the buffer.
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

// Seconds from the moment all ranks are ready until all are done, as this rank sees them.
absl::StatusOr<double> TimeCopy(Communicator& world, const RankBuffers& buffers, Stream& stream) {
  ZEROTH_RETURN_IF_ERROR(world.Barrier(stream, "copy begins"));
  const Clock::time_point start = Clock::now();
  std::memcpy(buffers.copy_to.raw_data(), buffers.copy_from.raw_data(), buffers.copy_to.bytes());
  benchmark::ClobberMemory();
  ZEROTH_RETURN_IF_ERROR(world.Barrier(stream, "copy ends"));
  return SecondsSince(start);
}

absl::StatusOr<double> TimeCollective(Communicator& world, const RankBuffers& buffers,
                                      const Collective& call, Stream& stream) {
  ZEROTH_RETURN_IF_ERROR(world.Barrier(stream, "collective begins"));
  const Clock::time_point start = Clock::now();
  ZEROTH_RETURN_IF_ERROR(call(world, buffers, stream));
  return SecondsSince(start);
}

struct Times {
  std::vector<double> collective;
  std::vector<double> copy;
};

// Rank 0 asks `keep_running` and keeps the times; the others follow.
absl::Status RunRank(Communicator& world, const Case& test, int64_t full_bytes,
                     const std::function<bool()>& keep_running, std::atomic<bool>& more,
                     Times& times) {
  ZEROTH_ASSIGN_OR_RETURN(const auto device, DeviceRegistry::Create("cpu", DeviceOptions()));
  Stream& stream = device->compute_stream();
  const int64_t full_count = full_bytes / static_cast<int64_t>(sizeof(float));
  const int64_t piece = full_count / world.size();
  // A copy of b bytes moves 2 b.
  ZEROTH_ASSIGN_OR_RETURN(const RankBuffers buffers,
                          Allocate(*device, full_count, piece * test.pieces_moved / 2));
  for (int warm_up = 0; warm_up < 2; ++warm_up) {
    ZEROTH_RETURN_IF_ERROR(TimeCollective(world, buffers, test.call, stream).status());
    ZEROTH_RETURN_IF_ERROR(TimeCopy(world, buffers, stream).status());
  }
  while (true) {
    if (world.rank() == 0) more = keep_running();
    ZEROTH_RETURN_IF_ERROR(world.Barrier(stream, "next"));
    if (!more) return absl::OkStatus();
    ZEROTH_ASSIGN_OR_RETURN(const double collective,
                            TimeCollective(world, buffers, test.call, stream));
    ZEROTH_ASSIGN_OR_RETURN(const double copy, TimeCopy(world, buffers, stream));
    if (world.rank() == 0) {
      times.collective.push_back(collective);
      times.copy.push_back(copy);
    }
  }
}

void RunCase(benchmark::State& state, const Case& test) {
  const int ranks = static_cast<int>(state.range(0));
  const int64_t full_bytes = state.range(1) << 20;
  std::atomic<bool> more{true};
  Times times;
  const auto keep_running = [&] {
    if (!times.collective.empty()) state.SetIterationTime(times.collective.back());
    return state.KeepRunning();
  };
  const absl::Status status = RunLocalRanks(ranks, [&](Communicator& world) {
    return RunRank(world, test, full_bytes, keep_running, more, times);
  });
  if (!status.ok()) {
    state.SkipWithError(status.ToString().c_str());
    return;
  }
  const double copied_bytes = static_cast<double>(full_bytes / ranks * test.pieces_moved) / 2;
  state.SetBytesProcessed(static_cast<int64_t>(times.collective.size()) *
                          CollectiveBytes(test.op, full_bytes, ranks));
  state.counters["copy_GB/s"] = copied_bytes / Best(times.copy) / 1e9;
  state.counters["ratio_to_floor"] = Best(times.copy) / Best(times.collective);
}

Tensor OwnPiece(const Communicator& world, const Tensor& full) {
  const int64_t count = full.numel() / world.size();
  return full.View(world.rank() * count, Shape({count}));
}

// In place: a rank reads n - 1 pieces and writes as many.
void BM_AllGather(benchmark::State& state) {
  const Collective call = [](Communicator& world, const RankBuffers& buffers, Stream& stream) {
    return world.AllGather(OwnPiece(world, buffers.full), buffers.full, stream, "all_gather");
  };
  RunCase(state, {CollectiveOp::kAllGather, call, 2 * (state.range(0) - 1)});
}

// In place: a rank reads n pieces and writes one.
void BM_ReduceScatter(benchmark::State& state) {
  const Collective call = [](Communicator& world, const RankBuffers& buffers, Stream& stream) {
    return world.ReduceScatter(buffers.full, OwnPiece(world, buffers.full), ReduceOp::kMean, stream,
                               "reduce_scatter");
  };
  RunCase(state, {CollectiveOp::kReduceScatter, call, state.range(0) + 1});
}

// A rank reads its piece of n buffers and writes it to all of them.
void BM_AllReduce(benchmark::State& state) {
  const Collective call = [](Communicator& world, const RankBuffers& buffers, Stream& stream) {
    return world.AllReduce(buffers.full, ReduceOp::kMean, stream, "all_reduce");
  };
  RunCase(state, {CollectiveOp::kAllReduce, call, 2 * state.range(0)});
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
