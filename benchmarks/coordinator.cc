// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Measures what one call by all ranks costs the coordinator, where ranks are processes.
//
// BM_CoordinatorCall passes the ranks' messages to the coordinator's state, without sockets, and
// takes the answers after each call. Argument: ranks.
// BM_CoordinatorSockets sends them through one TCP connection for each rank of this process, and
// counts the CPU time of the coordinator's thread. Arguments: ranks, the number of calls that a
// rank posts before it waits (1 as MPI's ranks, more as NCCL's), and how many of them share a
// message, as the parameters of a unit do with --layout=rows.
//
// Columns: ms_per_call, and ns_per_rank, which is that divided by the ranks: constant if the
// coordinator's work were the messages alone.

#include "zeroth/core/comm/process/coordinator.h"

#include <sys/resource.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/comm_stats.h"
#include "zeroth/core/comm/process/coordinator_world.h"
#include "zeroth/core/comm/process/handshake.h"
#include "zeroth/core/comm/process/messages.h"
#include "zeroth/core/comm/process/socket.h"

namespace zeroth {
namespace {

constexpr char kBackEnd[] = "bench";

Coordinator::Options OptionsFor(int ranks) {
  Coordinator::Options options;
  options.world_size = ranks;
  options.back_end = kBackEnd;
  return options;
}

// Returns a rank's message for `count` calls of the world's communicator, from call `index` on.
std::string CallMessage(uint64_t index, int64_t count, bool awaits) {
  CollectiveCall call;
  call.operation = CollectiveOpName(CollectiveOp::kReduceScatter);
  call.count = 1 << 20;
  call.dtype = DType::kBFloat16;
  call.reduce = ReduceOp::kMean;
  call.label = "transformer.h.17";
  WireWriter message = Message(MessageType::kCall).U32(kWorldGroup).U8(awaits ? 1 : 0);
  for (int64_t i = 0; i < count; ++i) {
    call.index = index++;
    WriteCall(call, message);
  }
  return message.bytes();
}

void Report(benchmark::State& state, double seconds, int64_t calls) {
  const double per_call = seconds / static_cast<double>(calls);
  state.counters["ms_per_call"] = per_call * 1e3;
  state.counters["ns_per_rank"] = per_call * 1e9 / static_cast<double>(state.range(0));
}

double SecondsOf(int whose) {
  rusage usage = {};
  getrusage(whose, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void BM_CoordinatorCall(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  CoordinatorWorld world(OptionsFor(ranks), /*port=*/0);
  for (int rank = 0; rank < ranks; ++rank) {
    const absl::Status joined = world.Join(static_cast<size_t>(rank), {ranks, rank, kBackEnd});
    if (!joined.ok()) return state.SkipWithError(joined.ToString().c_str());
  }
  static_cast<void>(world.TakeOutput());
  int64_t calls = 0;
  const double before = SecondsOf(RUSAGE_THREAD);
  for (auto _ : state) {
    const std::string message = CallMessage(static_cast<uint64_t>(calls++), 1, /*awaits=*/true);
    for (int rank = 0; rank < ranks; ++rank) {
      if (!world.Handle(static_cast<size_t>(rank), message)) {
        return state.SkipWithError("the coordinator does not understand the call");
      }
    }
    benchmark::DoNotOptimize(world.TakeOutput());
  }
  Report(state, SecondsOf(RUSAGE_THREAD) - before, calls);
}
BENCHMARK(BM_CoordinatorCall)
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(64)
    ->Arg(512)
    ->Arg(1024)
    ->Arg(4096)
    ->Unit(benchmark::kMillisecond);

// One rank's connection.
class RankConnection {
 public:
  // Connects and sends Hello and Join. The welcome comes once all ranks have joined.
  absl::Status Join(const Coordinator& coordinator, int rank, int ranks) {
    ZEROTH_ASSIGN_OR_RETURN(socket_,
                            Connect(coordinator.address(), coordinator.port(), absl::Seconds(10)));
    ZEROTH_ASSIGN_OR_RETURN(std::string nonce, NewNonce());
    const RankHandshake handshake(JobKey(), std::move(nonce));
    ZEROTH_RETURN_IF_ERROR(Send(Frame(handshake.Hello())));
    ZEROTH_ASSIGN_OR_RETURN(const std::string challenge, Receive());
    ZEROTH_ASSIGN_OR_RETURN(const std::string join,
                            handshake.Join(challenge, {ranks, rank, kBackEnd}));
    return Send(Frame(join));
  }

  absl::Status Send(absl::string_view bytes) { return SendAll(socket_, bytes); }

  absl::StatusOr<std::string> Receive() {
    for (;;) {
      ZEROTH_ASSIGN_OR_RETURN(const auto frame, frames_.Next());
      if (frame.has_value()) return std::string(*frame);
      ZEROTH_ASSIGN_OR_RETURN(const std::string bytes, ReceiveSome(socket_, /*timeout_ms=*/-1));
      frames_.Append(bytes);
    }
  }

  // Returns when all ranks have joined.
  absl::Status AwaitWelcome() {
    for (;;) {
      const absl::StatusOr<std::string> answer = Receive();
      ZEROTH_RETURN_IF_ERROR(answer.status());
      if (*answer == Message(MessageType::kWelcome).bytes()) return absl::OkStatus();
    }
  }

  // Returns when all ranks have posted `count` calls.
  absl::Status AwaitAgreed(uint64_t count) {
    for (;;) {
      const absl::StatusOr<std::string> answer = Receive();
      ZEROTH_RETURN_IF_ERROR(answer.status());
      WireReader reader(*answer);
      const auto type = static_cast<MessageType>(reader.U8());
      if (type != MessageType::kAgreed) return absl::InternalError("not an agreement");
      reader.U32();
      if (reader.U64() >= count) return absl::OkStatus();
    }
  }

 private:
  Socket socket_;
  FrameReader frames_;
};

absl::Status PostAndAwait(std::vector<RankConnection>& ranks, int64_t& calls, int64_t ahead,
                          int64_t together) {
  std::string messages;
  for (int64_t i = 0; i < ahead; i += together) {
    const bool awaits = i + together == ahead;
    messages += Frame(CallMessage(static_cast<uint64_t>(calls + i), together, awaits));
  }
  calls += ahead;
  for (RankConnection& rank : ranks) ZEROTH_RETURN_IF_ERROR(rank.Send(messages));
  for (RankConnection& rank : ranks) {
    ZEROTH_RETURN_IF_ERROR(rank.AwaitAgreed(static_cast<uint64_t>(calls)));
  }
  return absl::OkStatus();
}

void BM_CoordinatorSockets(benchmark::State& state) {
  const int size = static_cast<int>(state.range(0));
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max < static_cast<rlim_t>(2 * size + 100)) {
    return state.SkipWithError("too few open files are allowed (ulimit -n)");
  }
  auto coordinator = Coordinator::Start(OptionsFor(size));
  absl::Status status = coordinator.status();
  std::vector<RankConnection> ranks(static_cast<size_t>(size));
  for (int rank = 0; rank < size && status.ok(); ++rank) {
    status = ranks[static_cast<size_t>(rank)].Join(**coordinator, rank, size);
  }
  for (RankConnection& rank : ranks) {
    if (status.ok()) status = rank.AwaitWelcome();
  }
  int64_t calls = 0;
  const auto coordinators = [] { return SecondsOf(RUSAGE_SELF) - SecondsOf(RUSAGE_THREAD); };
  const double before = coordinators();
  for (auto _ : state) {
    if (status.ok()) status = PostAndAwait(ranks, calls, state.range(1), state.range(2));
  }
  const double seconds = coordinators() - before;
  if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  Report(state, seconds, calls);
}
BENCHMARK(BM_CoordinatorSockets)
    ->ArgNames({"ranks", "ahead", "together"})
    ->ArgsProduct({{8, 64, 512, 1024, 4096}, {1}, {1}})
    ->ArgsProduct({{8, 64, 512, 1024, 4096}, {64}, {1, 16}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace zeroth
