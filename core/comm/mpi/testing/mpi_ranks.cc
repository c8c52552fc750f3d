// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests of the MPI back end alone, run on one rank. mpi_test.cc starts the ranks, and selects these
// tests by name.

#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/mpi/mpi.h"
#include "zeroth/core/comm/mpi/mpi_engine.h"
#include "zeroth/core/comm/mpi/testing/run_on_cpu.h"
#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/core/comm/process/process_world.h"
#include "zeroth/core/comm/process/testing/foreign_clients.h"
#include "zeroth/core/comm/testing/communicator_test_fixture.h"
#include "zeroth/core/comm/testing/reduction_reference.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth::testing {
namespace {

absl::Status AllReduceOnce(TestRank& rank) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer, ToDevice(rank.device, std::vector<float>(4, 1.0f)));
  ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kSum, rank.stream, "once"));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> sum, Fetch<float>(buffer, rank.stream));
  EXPECT_EQ(sum[3], static_cast<float>(rank.size()));
  return absl::OkStatus();
}

// Many blocks, with remainders, and pieces of more than one message.
TEST(MpiRanks, LargeReductionsHaveTheBitsOfTheTree) {
  const absl::Status status = RunOnCpu([](TestRank& rank) -> absl::Status {
    const auto me = static_cast<size_t>(rank.rank());
    const int64_t count = (int64_t{2} << 20) + 4099;
    const int64_t all_count = count * rank.size();
    const auto values = TestValuesOfAll<float>(7, rank.size(), all_count);
    const std::vector<float> expected = ReferenceReduceAll<float>(values, ReduceOp::kMean);
    ZEROTH_ASSIGN_OR_RETURN(const Tensor full, ToDevice(rank.device, values[me]));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor piece,
                            ToDevice(rank.device, std::vector<float>(static_cast<size_t>(count))));
    ZEROTH_RETURN_IF_ERROR(
        rank.world.ReduceScatter(full, piece, ReduceOp::kMean, rank.stream, "scatter"));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> own, Fetch<float>(piece, rank.stream));
    const auto begin = expected.begin() + rank.rank() * count;
    ExpectSameBits(own, std::vector<float>(begin, begin + count));
    // In place, and the other pieces stay.
    ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(full, ReduceOp::kMean, rank.stream, "all reduce"));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> reduced, Fetch<float>(full, rank.stream));
    ExpectSameBits(reduced, expected);
    ZEROTH_ASSIGN_OR_RETURN(
        const Tensor gathered,
        ToDevice(rank.device, std::vector<float>(static_cast<size_t>(all_count))));
    ZEROTH_RETURN_IF_ERROR(rank.world.AllGather(piece, gathered, rank.stream, "gather"));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> again, Fetch<float>(gathered, rank.stream));
    ExpectSameBits(again, expected);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(MpiRanks, AllReduceOnce) {
  const absl::Status status = RunOnCpu(AllReduceOnce);
  EXPECT_TRUE(status.ok()) << status;
}

// MPI tells how many ranks there are, but not how many of them are on this machine.
TEST(MpiRanks, AnUnknownLauncherDoesNotSayWhoIsOnThisMachine) {
  const absl::StatusOr<std::optional<StartedRanks>> known = LauncherRegistry::Started("mpi");
  ASSERT_TRUE(known.ok()) << known.status();
  const absl::StatusOr<mpi::Engine*> engine = mpi::Engine::Get();
  ASSERT_TRUE(engine.ok()) << engine.status();
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",
                           "PMI_SIZE", "SLURM_PROCID"}) {
    unsetenv(name);
  }
  const absl::StatusOr<std::optional<StartedRanks>> unknown = LauncherRegistry::Started("mpi");
  ASSERT_TRUE(unknown.ok()) << unknown.status();
  EXPECT_EQ((*unknown)->world_size, (*engine)->size());
  EXPECT_EQ((*unknown)->local_world_size, 0);
}

TEST(MpiRanks, AnotherWorldSizeIsRefused) {
  LaunchOptions options;
  options.world_size = 77;
  const absl::Status status = RunOnCpu(AllReduceOnce, options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  ExpectWords(status, {"world_size is 77", "has 2 ranks", "mpirun"});
}

TEST(MpiRanks, ADroppedCallEndsTheOthersWait) {
  const absl::Status status = RunOnCpu([](TestRank& rank) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(AllReduceOnce(rank));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                            ToDevice(rank.device, std::vector<float>(4, 1.0f)));
    // A mismatch on the first communicator fails the stream before its second call, in which the
    // other ranks wait.
    ZEROTH_ASSIGN_OR_RETURN(const auto other, rank.world.Duplicate());
    if (rank.rank() == 0) {
      const absl::Status bad = rank.world.Broadcast(buffer, 99, rank.stream, "nobody");
      EXPECT_FALSE(bad.ok());
      return bad;
    }
    absl::Status waits = other->Barrier(rank.stream, "in vain");
    waits.Update(rank.stream.Synchronize());
    EXPECT_FALSE(waits.ok());
    return waits;
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  ExpectWords(status, {"rank 0 failed", "'nobody'"});
}

// All-reduces megabytes forever; shortly after the first, `target` sends itself `signal`.
absl::Status RunWithASignal(TestRank& rank, int signal, int target = 1) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                          ToDevice(rank.device, std::vector<float>(size_t{16} << 20, 1.0f)));
  ZEROTH_RETURN_IF_ERROR(AllReduceOnce(rank));
  if (rank.rank() == target) {
    std::thread([signal] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      kill(getpid(), signal);
    }).detach();
  }
  for (;;) {
    ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kSum, rank.stream, "for ever"));
    ZEROTH_RETURN_IF_ERROR(rank.stream.Synchronize());
  }
}

TEST(MpiRanks, OneIsKilled) {
  const absl::Status status =
      RunOnCpu([](TestRank& rank) { return RunWithASignal(rank, SIGKILL); });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  ExpectWords(status, {"rank 1 failed", "its process has ended"});
}

// Stops rank `target`, like a machine that has lost its power or its network.
absl::Status RunWithAStop(int target) {
  LaunchOptions options;
  options.timeout = absl::Seconds(5);
  int64_t to_kill = 0;  // by another rank, or mpirun would wait for it
  const absl::Status status = RunOnCpu(
      [&](TestRank& rank) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const Tensor process,
                                ToDevice(rank.device, std::vector<int64_t>{getpid()}));
        ZEROTH_RETURN_IF_ERROR(rank.world.Broadcast(process, target, rank.stream, "process"));
        ZEROTH_ASSIGN_OR_RETURN(const std::vector<int64_t> processes,
                                Fetch<int64_t>(process, rank.stream));
        if (rank.rank() == (target + 1) % rank.world.size()) to_kill = processes[0];
        return RunWithASignal(rank, SIGSTOP, target);
      },
      options);
  if (to_kill > 0) kill(static_cast<pid_t>(to_kill), SIGKILL);
  return status;
}

TEST(MpiRanks, OneIsStopped) {
  const absl::Status status = RunWithAStop(1);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  ExpectWords(status, {"timeout after 5s", "'for ever'"});
}

// Stopping rank 0's process also stops the coordinator, which would tell the other ranks.
TEST(MpiRanks, RankZeroIsStopped) {
  const absl::Status status = RunWithAStop(0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  ExpectWords(status, {"rank 0's process", "no answer, it may be stopped"});
}

// Hangs a call of MPI, like a library whose network has failed.
void HangTheThreadOfMpi() {
  // Get takes a lock, so the signal handler must not call it.
  static const mpi::Engine* const engine = *mpi::Engine::Get();
  signal(SIGUSR1, [](int) {
    // A signal between calls does nothing, and is sent again.
    while (engine->in_library()) pause();
  });
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name != mpi::Engine::kThreadName) continue;
    const int thread = std::stoi(task.path().filename());
    for (;;) {
      EXPECT_EQ(syscall(SYS_tgkill, getpid(), thread, SIGUSR1), 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

// The process of the rank that hangs cannot return, and ends; the other ranks get the error of a
// lost rank.
TEST(MpiRanks, OneHangsInsideMpi) {
  const auto engine = mpi::Engine::Get();
  ASSERT_TRUE(engine.ok()) << engine.status();
  // Longer than the engine takes to abandon MPI.
  if ((*engine)->rank() == 1) HangWatchdog::ShortenForTest(absl::Seconds(9));
  LaunchOptions options;
  options.timeout = absl::Seconds(2);
  const absl::Status status = RunOnCpu(
      [](TestRank& rank) -> absl::Status {
        ZEROTH_RETURN_IF_ERROR(AllReduceOnce(rank));
        ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                                ToDevice(rank.device, std::vector<float>(size_t{1} << 20, 1.0f)));
        if (rank.rank() == 1) std::thread(HangTheThreadOfMpi).detach();
        for (;;) {
          ZEROTH_RETURN_IF_ERROR(
              rank.world.AllReduce(buffer, ReduceOp::kSum, rank.stream, "for ever"));
          ZEROTH_RETURN_IF_ERROR(rank.stream.Synchronize());
        }
      },
      options);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  ExpectWords(status, {"timeout after 2s", "'for ever'"});
}

// Rank 1 ends without starting MPI, like a process that cannot load a library.
TEST(MpiRanks, OneNeverStartsMpi) {
  const auto environment = ProcessEnvironment::ReadRanks();
  ASSERT_TRUE(environment.ok()) << environment.status();
  if (environment->rank == 1) {
    std::this_thread::sleep_for(std::chrono::seconds(4));
    return;
  }
  // RunMpiRank would wait for at least a minute, so this starts MPI with a shorter timeout.
  const absl::Status status = mpi::Engine::Get(absl::Seconds(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  ExpectWords(status, {"timeout after 1s", "MPI has not started", "all ranks"});
  EXPECT_EQ(RunOnCpu(AllReduceOnce), status);
}

// Finds the port of the meeting: one that was not open before, when MPI opened its own.
std::optional<MeetingPlace> NewPort(const std::set<int>& before) {
  for (int port : ListeningPorts()) {
    if (before.count(port) == 0) return MeetingPlace{"127.0.0.1", port, {"an id", "a secret"}};
  }
  return std::nullopt;
}

// ForeignClients connect while rank 0 waits for the other ranks, and while all ranks work.
TEST(MpiRanks, StrangersHarmNobody) {
  const auto engine = mpi::Engine::Get();
  ASSERT_TRUE(engine.ok()) << engine.status();
  const bool has_crowd = (*engine)->rank() == 0;
  std::unique_ptr<ForeignClients> clients;
  if (has_crowd) {
    const int idle = AffordableConnections(2000);
    clients = std::make_unique<ForeignClients>(
        [before = ListeningPorts()] { return NewPort(before); }, idle);
  } else {
    // Let the foreign clients connect first.
    std::this_thread::sleep_for(std::chrono::milliseconds(500 * (*engine)->rank()));
  }
  const absl::Status status = RunOnCpu([&](TestRank& rank) -> absl::Status {
    const int64_t count = int64_t{1} << 16;
    const auto values = TestValuesOfAll<float>(7, rank.size(), count);
    const std::vector<float> expected = ReferenceReduceAll<float>(values, ReduceOp::kMean);
    for (int i = 0; i < 20; ++i) {
      const auto me = static_cast<size_t>(rank.rank());
      ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer, ToDevice(rank.device, values[me]));
      ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kMean, rank.stream, "mean"));
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> mean, Fetch<float>(buffer, rank.stream));
      ExpectSameBits(mean, expected);
      if (has_crowd) clients->AwaitRounds(1);
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  if (!has_crowd) return;
  EXPECT_GT(clients->connected(), 0);
  EXPECT_GT(clients->refused(), 0);
}

// The program uses MPI itself. The functions with which it starts MPI need no handles, so they can
// be declared here for every implementation.
int InitThread(int level) {
  void* const library = dlopen(std::getenv("ZEROTH_MPI_LIBRARY"), RTLD_NOW | RTLD_GLOBAL);
  const auto init =
      reinterpret_cast<int (*)(int*, char***, int, int*)>(dlsym(library, "MPI_Init_thread"));
  int provided = -1;
  EXPECT_EQ(init(nullptr, nullptr, level, &provided), 0);
  return provided;
}

void Finalize() {
  const auto finalize = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "MPI_Finalize"));
  ASSERT_NE(finalize, nullptr);
  EXPECT_EQ(finalize(), 0);
}

TEST(MpiRanks, AProgramThatHasStartedMpiForThreads) {
  ASSERT_EQ(InitThread(3), 3);
  const absl::Status status = RunOnCpu(AllReduceOnce);
  EXPECT_TRUE(status.ok()) << status;
  Finalize();
}

TEST(MpiRanks, AProgramThatHasStartedMpiForOneThread) {
  ASSERT_EQ(InitThread(0), 0);
  const absl::Status status = RunOnCpu(AllReduceOnce);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  ExpectWords(status, {"MPI_THREAD_MULTIPLE"});
  Finalize();
}

TEST(MpiRanks, NoLibrary) {
  const absl::Status status = RunOnCpu(AllReduceOnce);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  ExpectWords(status, {std::getenv("ZEROTH_MPI_LIBRARY"), "install Open MPI or MPICH"});
}

TEST(MpiRanks, ALibraryThatIsNoMpi) {
  const absl::Status status = RunOnCpu(AllReduceOnce);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  ExpectWords(status, {"is not an MPI library", std::getenv("ZEROTH_MPI_LIBRARY")});
}

TEST(MpiRanks, TheLibraryOfAnotherLauncher) {
  const absl::Status status = RunOnCpu(AllReduceOnce);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  ExpectWords(status, {" of 2, but to ", "of 1", "ZEROTH_MPI_LIBRARY"});
}

// Meets by MPI as another back end does, whose ranks do not know whether they share a node.
TEST(MpiRanks, OthersMeetByMpi) {
  const auto environment = ProcessEnvironment::Read();
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_TRUE(environment->address_by_launcher);
  auto processes = ProcessWorld::Join(*environment, LaunchOptions(), "another");
  ASSERT_TRUE(processes.ok()) << processes.status();
  const absl::Status met = (*processes)->Return((*processes)->Meet(kWorldGroup).status());
  EXPECT_TRUE(met.ok()) << met;
}

}  // namespace
}  // namespace zeroth::testing
