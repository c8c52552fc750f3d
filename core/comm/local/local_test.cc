// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests that need ranks that share memory; the contract of communicators is in
// local_conformance_test.

#include "zeroth/core/comm/local/local.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/cpu/cpu_stream.h"
#include "zeroth/core/device/device.h"

namespace zeroth {
namespace {

std::shared_ptr<Device> OpenCpu() { return *DeviceRegistry::Create("cpu", DeviceOptions()); }

BufferView View(std::vector<float>& values) {
  return BufferView(values.data(), static_cast<int64_t>(values.size()), DType::kFloat32);
}

void ExpectWords(const absl::Status& status, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_TRUE(absl::StrContains(status.message(), word))
        << "no \"" << word << "\" in: " << status;
  }
}

TEST(RunLocalRanksTest, RefusesOptionsThatCannotRun) {
  const auto main = [](Communicator&) { return absl::OkStatus(); };
  for (int world_size : {0, -3}) {
    const absl::Status status = RunLocalRanks(world_size, main);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    ExpectWords(status, {absl::StrCat("world_size is ", world_size)});
  }
  LaunchOptions options;
  options.timeout = absl::ZeroDuration();
  EXPECT_EQ(RunLocalRanks(options, main).code(), absl::StatusCode::kInvalidArgument);
  const auto refused = [&](const LaunchOptions& of_nccl) {
    const absl::Status status = RunLocalRanks(of_nccl, main);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return status;
  };
  ExpectWords(refused({.reduction = "nccl"}), {"reduction is 'nccl'", "local back end"});
  ExpectWords(refused({.nccl_copy_engine = "on"}), {"nccl_copy_engine is 'on'", "local back end"});
}

TEST(RunLocalRanksTest, EveryRankRunsOnceOnItsOwnThread) {
  std::mutex mutex;
  std::vector<int> runs(5, 0);
  std::vector<std::thread::id> threads;
  const absl::Status status = RunLocalRanks(5, [&](Communicator& world) {
    EXPECT_EQ(world.name(), "local world ranks [0-4]");
    std::lock_guard<std::mutex> lock(mutex);
    ++runs[static_cast<size_t>(world.rank())];
    for (std::thread::id other : threads) EXPECT_NE(other, std::this_thread::get_id());
    threads.push_back(std::this_thread::get_id());
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(runs, std::vector<int>(5, 1));
}

TEST(RunLocalRanksTest, SurvivesThrownNonExceptions) {
  const absl::Status status = RunLocalRanks(2, [](Communicator& world) -> absl::Status {
    if (world.rank() == 1) throw 42;
    return world.Split(0, 0).status();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  ExpectWords(status, {"rank 1 failed", "not a std::exception"});
}

TEST(RunLocalRanksTest, KeepsTheWordsOfARankThatMetABrokenWorld) {
  const absl::Status status = RunLocalRanks(2, [](Communicator& world) -> absl::Status {
    if (world.rank() == 0) {
      world.Abort(absl::DataLossError("disk on fire"));
      return absl::OkStatus();
    }
    if (world.Split(0, 0).ok()) return absl::OkStatus();
    return absl::UnavailableError("gave up on step 7");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  ExpectWords(status, {"rank 1 failed: gave up on step 7", "rank 0 aborted: disk on fire"});
}

TEST(RunLocalRanksTest, AnInfiniteTimeoutIsAllowed) {
  LaunchOptions options;
  options.world_size = 3;
  options.timeout = absl::InfiniteDuration();
  const absl::Status status =
      RunLocalRanks(options, [](Communicator& world) { return world.Split(0, 0).status(); });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(LocalCommunicatorTest, BarrierHoldsEverybodyBackUntilTheLast) {
  constexpr int kRanks = 4;
  std::atomic<int> arrived{0};
  const absl::Status status = RunLocalRanks(kRanks, [&](Communicator& world) -> absl::Status {
    const auto device = OpenCpu();
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      ZEROTH_RETURN_IF_ERROR(world.Barrier(device->compute_stream(), "in"));
      EXPECT_EQ(arrived, round * kRanks);
      ZEROTH_RETURN_IF_ERROR(world.Barrier(device->compute_stream(), "out"));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// A call must not be over for a rank whose input a peer has yet to read.
TEST(LocalCommunicatorTest, InputsMayBeOverwrittenAsSoonAsTheCallIsOver) {
  const absl::Status status = RunLocalRanks(4, [](Communicator& world) -> absl::Status {
    const auto device = OpenCpu();
    Stream& stream = device->compute_stream();
    std::vector<float> shard(3001);
    std::vector<float> full(shard.size() * 4);
    for (int round = 0; round < 30; ++round) {
      const auto value = static_cast<float>(round * 10 + world.rank());
      std::fill(shard.begin(), shard.end(), value);
      ZEROTH_RETURN_IF_ERROR(world.AllGather(View(shard), View(full), stream, "gather"));
      std::fill(shard.begin(), shard.end(), -1.0f);
      for (size_t i = 0; i < full.size(); ++i) {
        const auto expected = static_cast<float>(round * 10 + static_cast<int>(i / shard.size()));
        if (full[i] != expected) return absl::DataLossError(absl::StrCat("element ", i));
      }
      std::fill(full.begin(), full.end(), value);
      ZEROTH_RETURN_IF_ERROR(
          world.ReduceScatter(View(full), View(shard), ReduceOp::kSum, stream, "scatter"));
      std::fill(full.begin(), full.end(), -1.0f);
      for (float sum : shard) {
        if (sum != static_cast<float>(40 * round + 6)) return absl::DataLossError("sum");
      }
      ZEROTH_RETURN_IF_ERROR(world.Broadcast(View(shard), round % 4, stream, "broadcast"));
      std::fill(shard.begin(), shard.end(), -2.0f);
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Ranks free their buffers as soon as a call returns an error; no peer may still be reading them.
// (The address sanitizer sees it if one is.)
TEST(LocalCommunicatorTest, AnAbortInTheMiddleOfDataMovementIsSafe) {
  for (int trial = 0; trial < 20; ++trial) {
    const absl::Status status = RunLocalRanks(4, [trial](Communicator& world) -> absl::Status {
      const auto device = OpenCpu();
      const auto stream = *device->CreateStream("comm");
      std::thread saboteur;
      if (world.rank() == trial % 4) {
        saboteur = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(100 * trial));
          world.Abort(absl::AbortedError("sabotage"));
        });
      }
      absl::Status broken;
      while (broken.ok()) {
        std::vector<float> shard(5000, 1.0f);
        std::vector<float> full(20000);
        broken.Update(world.AllGather(View(shard), View(full), *stream, "gather"));
        broken.Update(world.AllReduce(View(full), ReduceOp::kMean, *stream, "reduce"));
        broken.Update(stream->Synchronize());
        if (broken.ok() && full != std::vector<float>(20000, 1.0f))
          broken = absl::DataLossError("sum");
      }
      if (saboteur.joinable()) saboteur.join();
      return broken;
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
    ExpectWords(status, {absl::StrCat("rank ", trial % 4, " aborted: sabotage")});
  }
}

// The stream of rank 1 fails by itself with a collective enqueued behind the failing work: the
// others learn of it at once, and the launcher reports the cause and not its consequence.
TEST(LocalCommunicatorTest, ADroppedCallReleasesTheOthers) {
  const absl::Status status = RunLocalRanks(3, [](Communicator& world) -> absl::Status {
    const auto device = OpenCpu();
    const auto stream = *device->CreateStream("comm");
    if (world.rank() == 1) {
      std::mutex gate;
      std::unique_lock<std::mutex> closed(gate);
      ZEROTH_RETURN_IF_ERROR(CpuStream::From(*stream).Enqueue([&gate] {
        std::lock_guard<std::mutex> pass(gate);
        return absl::UnimplementedError("kernel exploded");
      }));
      ZEROTH_RETURN_IF_ERROR(world.Barrier(*stream, "behind"));
      closed.unlock();
      while (world.status().ok()) std::this_thread::sleep_for(std::chrono::microseconds(200));
      return stream->Synchronize();
    }
    absl::Status secondary = world.Barrier(*stream, "behind");
    secondary.Update(stream->Synchronize());
    EXPECT_EQ(secondary.code(), absl::StatusCode::kUnimplemented);
    ExpectWords(secondary, {"rank 1 failed: its stream stopped before barrier 'behind' (call 1)",
                            "kernel exploded"});
    return secondary;
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "rank 1 failed: kernel exploded");
}

TEST(LocalCommunicatorTest, ACallOnAFailedStreamReleasesTheOthers) {
  const absl::Status status = RunLocalRanks(2, [](Communicator& world) -> absl::Status {
    const auto device = OpenCpu();
    const auto stream = *device->CreateStream("comm");
    if (world.rank() == 1) {
      ZEROTH_RETURN_IF_ERROR(CpuStream::From(*stream).Enqueue(
          [] { return absl::UnimplementedError("kernel exploded"); }));
      EXPECT_FALSE(stream->Synchronize().ok());
    }
    absl::Status failed = world.Barrier(*stream, "after");
    failed.Update(stream->Synchronize());
    EXPECT_EQ(failed.code(), absl::StatusCode::kUnimplemented);
    ExpectWords(failed, {"kernel exploded"});
    return failed;
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  ExpectWords(status, {"rank 1 failed: barrier 'after'", "kernel exploded"});
}

// Makes two ranks wait for each other: both use two communicators on one stream, in opposite
// orders.
absl::Status DeadlockOnOneStream(absl::Duration timeout) {
  LaunchOptions options;
  options.world_size = 2;
  options.timeout = timeout;
  return RunLocalRanks(options, [](Communicator& world) -> absl::Status {
    const auto device = OpenCpu();
    ZEROTH_ASSIGN_OR_RETURN(const auto a, world.Duplicate());
    ZEROTH_ASSIGN_OR_RETURN(const auto b, world.Duplicate());
    const auto stream = *device->CreateStream("comm");
    Communicator& first = world.rank() == 0 ? *a : *b;
    Communicator& second = world.rank() == 0 ? *b : *a;
    absl::Status stuck = first.Barrier(*stream, world.rank() == 0 ? "a" : "b");
    stuck.Update(second.Barrier(*stream, world.rank() == 0 ? "b" : "a"));
    stuck.Update(stream->Synchronize());
    return stuck;
  });
}

TEST(LocalCommunicatorTest, TimeoutSaysWhereTheMissingRankIsStuck) {
  // Tries longer timeouts if the machine is too slow for both ranks to reach the deadlock in time.
  absl::Status status;
  for (absl::Duration timeout = absl::Milliseconds(50); timeout < absl::Seconds(20); timeout *= 4) {
    status = DeadlockOnOneStream(timeout);
    if (absl::StrContains(status.message(), "waiting in barrier 'a'") &&
        absl::StrContains(status.message(), "waiting in barrier 'b'")) {
      break;
    }
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  ExpectWords(status, {"has enqueued 1 more that its stream has not reached",
                       "waiting in barrier 'a' (call 1)", "waiting in barrier 'b' (call 1)",
                       "on local world ranks [0, 1]"});
}

// While a collective waits for its peers on a worker stream, the rank's own thread computes on.
TEST(LocalCommunicatorTest, ComputationOverlapsACollective) {
  std::atomic<bool> computed{false};
  const absl::Status status = RunLocalRanks(2, [&](Communicator& world) -> absl::Status {
    const auto device = OpenCpu();
    const auto stream = *device->CreateStream("comm");
    std::vector<float> values(100, 1.0f);
    if (world.rank() == 1) {
      while (!computed) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    ZEROTH_RETURN_IF_ERROR(world.AllReduce(View(values), ReduceOp::kSum, *stream, "reduce"));
    ZEROTH_ASSIGN_OR_RETURN(const auto done, stream->Record());
    if (world.rank() == 0) {
      EXPECT_FALSE(done->IsDone());
      computed = true;
    }
    ZEROTH_RETURN_IF_ERROR(done->Synchronize());
    EXPECT_EQ(values, std::vector<float>(100, 2.0f));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace zeroth
