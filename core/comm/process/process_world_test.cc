// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/process_world.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/process/hang_watchdog.h"
#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/core/comm/process/socket.h"
#include "zeroth/core/comm/process/testing/test_environment.h"

namespace zeroth {
namespace {

using testing::TestEnvironment;
using testing::TestRendezvousFile;

LaunchOptions WithTimeout(absl::Duration timeout) {
  LaunchOptions options;
  options.timeout = timeout;
  return options;
}

using RankMain = std::function<absl::Status(ProcessWorld& world)>;

absl::Status RunRank(const ProcessEnvironment& environment, absl::Duration timeout,
                     const RankMain& rank_main) {
  auto world = ProcessWorld::Join(environment, WithTimeout(timeout), "test");
  if (!world.ok()) return world.status();
  return (*world)->Return(rank_main(**world));
}

// Runs ranks as threads, and returns the result of each rank's Return.
std::vector<absl::Status> RunThreads(int size, const RankMain& rank_main,
                                     absl::Duration timeout = absl::Minutes(5)) {
  const std::string file = TestRendezvousFile();
  std::vector<absl::Status> statuses(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      statuses[static_cast<size_t>(rank)] =
          RunRank(TestEnvironment(rank, size, file), timeout, rank_main);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

CollectiveCall Call(CollectiveOp op, int64_t count, const std::string& label) {
  CollectiveCall call;
  call.operation = CollectiveOpName(op);
  call.count = count;
  call.dtype = DType::kFloat32;
  call.label = label;
  return call;
}

absl::Status PostAndAwait(ProcessWorld& world, const CollectiveCall& call) {
  const absl::StatusOr<uint64_t> number = world.Post(kWorldGroup, call);
  if (!number.ok()) return number.status();
  return world.AwaitAgreed(kWorldGroup, *number);
}

void ExpectError(const absl::Status& status, absl::StatusCode code,
                 const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& word : words) {
    EXPECT_TRUE(absl::StrContains(status.message(), word)) << "no '" << word << "' in " << status;
  }
}

TEST(ProcessWorldTest, CallsThatMatchAreAgreed) {
  for (int size : {1, 2, 5}) {
    for (const absl::Status& status : RunThreads(size, [](ProcessWorld& world) -> absl::Status {
           // Ranks run far ahead of each other, because Post does not wait.
           for (int i = 0; i < 200; ++i) {
             const auto number =
                 world.Post(kWorldGroup, Call(CollectiveOp::kAllGather, i, absl::StrCat("h.", i)));
             EXPECT_TRUE(number.ok());
             EXPECT_EQ(*number, static_cast<uint64_t>(i + 1));
           }
           const absl::Status agreed = world.AwaitAgreed(kWorldGroup, 200);
           EXPECT_EQ(world.Agreed(kWorldGroup), 200u);
           return agreed;
         })) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

// So many calls need several messages, because a message has a limit.
TEST(ProcessWorldTest, CallsThatArePostedTogetherAreNumberedInOrder) {
  for (const absl::Status& status : RunThreads(3, [](ProcessWorld& world) -> absl::Status {
         EXPECT_EQ(*world.Post(kWorldGroup, Call(CollectiveOp::kBarrier, 0, "")), 1u);
         std::vector<CollectiveCall> calls;
         for (int i = 0; i < 100; ++i) {
           calls.push_back(Call(CollectiveOp::kAllGather, i, std::string(20'000, 'h')));
         }
         const auto number = world.PostAll(kWorldGroup, calls, /*awaits=*/true);
         EXPECT_EQ(*number, 101u);
         return world.AwaitAgreed(kWorldGroup, *number);
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(ProcessWorldTest, ADifferenceBreaksTheWorldEverywhere) {
  for (const absl::Status& status : RunThreads(3, [](ProcessWorld& world) {
         std::atomic<bool> stopped{false};
         world.OnBreak([&] { stopped = true; });
         absl::Status result = PostAndAwait(world, Call(CollectiveOp::kBarrier, 1, "same"));
         EXPECT_TRUE(result.ok()) << result;
         const int64_t count = world.rank() == 2 ? 7 : 8;
         result = PostAndAwait(world, Call(CollectiveOp::kAllReduce, count, "wte"));
         EXPECT_FALSE(result.ok());
         EXPECT_TRUE(stopped) << "told before the transport was stopped";
         EXPECT_EQ(world.status(), result);
         EXPECT_EQ(world.Post(kWorldGroup, Call(CollectiveOp::kBarrier, 0, "")).status(), result);
         bool at_once = false;
         world.OnBreak([&] { at_once = true; });
         EXPECT_TRUE(at_once);
         return result;
       })) {
    ExpectError(status, absl::StatusCode::kFailedPrecondition,
                {"do not match on test world ranks [0-2]",
                 "rank 2 called all_reduce 'wte' "
                 "(call 2, 7 x fp32)",
                 "8 x fp32"});
  }
}

TEST(ProcessWorldTest, AllRanksReturnTheErrorThatCameFirst) {
  for (const absl::Status& status : RunThreads(4, [](ProcessWorld& world) {
         if (world.rank() == 2) return absl::OutOfRangeError("token 9 is outside");
         return PostAndAwait(world, Call(CollectiveOp::kBarrier, 0, "wait"));
       })) {
    EXPECT_EQ(status, absl::OutOfRangeError("rank 2 failed: token 9 is outside"));
  }
}

// The ranks fail at the same time, so most of them call Fail before they hear of the first error.
TEST(ProcessWorldTest, FailReturnsTheErrorThatCameFirst) {
  for (int round = 0; round < 20; ++round) {
    const std::vector<absl::Status> statuses = RunThreads(4, [](ProcessWorld& world) {
      absl::Status failed = world.Meet(kWorldGroup).status();
      if (failed.ok()) failed = world.Fail(absl::DataLossError("disk on fire"), "h.0");
      EXPECT_EQ(failed, world.status());
      return failed;
    });
    for (const absl::Status& status : statuses) EXPECT_EQ(status, statuses.front());
  }
}

TEST(ProcessWorldTest, TimeoutNamesWhoIsMissing) {
  for (const absl::Status& status : RunThreads(
           3,
           [](ProcessWorld& world) {
             if (world.rank() == 1) {
               while (world.status().ok()) usleep(500);
               return world.status();
             }
             return PostAndAwait(world, Call(CollectiveOp::kBroadcast, 4, "h.4"));
           },
           absl::Milliseconds(600))) {
    ExpectError(status, absl::StatusCode::kDeadlineExceeded,
                {"timeout after 600ms in broadcast 'h.4'", "missing rank 1 (",
                 "rank 1: no call yet", "ranks 0, 2: waiting in broadcast"});
  }
}

TEST(ProcessWorldTest, SplitsAndValues) {
  for (const absl::Status& status : RunThreads(4, [](ProcessWorld& world) -> absl::Status {
         auto seat = world.Split(kWorldGroup, world.rank() % 2, -world.rank());
         EXPECT_TRUE(seat.ok()) << seat.status();
         const int odd = world.rank() % 2;
         EXPECT_EQ(seat->world_ranks, (std::vector<int>{2 + odd, odd}));
         EXPECT_EQ(seat->rank, world.rank() < 2 ? 1 : 0);
         const auto of = [](int rank) { return absl::StrCat(std::string(3, '\0'), rank); };
         const auto values = world.Meet(seat->group, of(world.rank()));
         EXPECT_TRUE(values.ok()) << values.status();
         EXPECT_EQ(*values, (std::vector<std::string>{of(2 + odd), of(odd)}));
         const auto number = world.Post(seat->group, Call(CollectiveOp::kBarrier, 0, "x"));
         EXPECT_TRUE(number.ok());
         const absl::Status agreed = world.AwaitAgreed(seat->group, *number);
         if (!agreed.ok()) return agreed;
         const auto nobody = world.Split(kWorldGroup, -1, 0);
         EXPECT_TRUE(nobody.ok());
         EXPECT_EQ(nobody->group, kNoGroup);
         return absl::OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

// Threads of a rank, each with its own group, may split these in any order.
TEST(ProcessWorldTest, GroupsAreSplitAtOnce) {
  for (const absl::Status& status : RunThreads(2, [](ProcessWorld& world) -> absl::Status {
         constexpr int kGroups = 8;
         std::vector<ProcessWorld::Seat> groups;
         for (int i = 0; i < kGroups; ++i) {
           auto seat = world.Split(kWorldGroup, 0, world.rank());
           if (!seat.ok()) return seat.status();
           groups.push_back(*std::move(seat));
         }
         const auto split = [&](int i) {
           const int up = i % 2 == 0 ? 1 : -1;
           const auto seat =
               world.Split(groups[static_cast<size_t>(i)].group, 0, up * world.rank());
           ASSERT_TRUE(seat.ok()) << seat.status();
           EXPECT_EQ(seat->world_ranks,
                     up > 0 ? (std::vector<int>{0, 1}) : (std::vector<int>{1, 0}));
         };
         if (world.rank() == 1) {
           usleep(50000);
           for (int i = kGroups; i-- > 0;) split(i);
           return absl::OkStatus();
         }
         std::vector<std::thread> threads;
         for (int i = 0; i < kGroups; ++i) threads.emplace_back(split, i);
         for (std::thread& thread : threads) thread.join();
         return absl::OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(ProcessWorldTest, NobodyLeavesAMeetingAlone) {
  std::atomic<int> present{0};
  for (const absl::Status& status : RunThreads(4, [&](ProcessWorld& world) {
         usleep(static_cast<useconds_t>(world.rank()) * 2000);
         ++present;
         absl::Status met = world.Meet(kWorldGroup).status();
         EXPECT_EQ(present, 4);
         // Meet stays OK, even if another rank breaks the world right afterwards.
         EXPECT_TRUE(met.ok()) << met;
         if (world.rank() == 3) world.Break(absl::AbortedError("rank 3 aborted"));
         return met;
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(ProcessWorldTest, AMeetingEndsWithTheWorld) {
  for (const absl::Status& status : RunThreads(2, [](ProcessWorld& world) -> absl::Status {
         if (world.rank() == 1) return absl::AbortedError("no id to give");
         return world.Meet(kWorldGroup).status();
       })) {
    ExpectError(status, absl::StatusCode::kAborted, {"rank 1 failed: no id to give"});
  }
}

TEST(ProcessWorldTest, RanksThatDoNotComeAreNamed) {
  const std::string file = TestRendezvousFile();
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      statuses[static_cast<size_t>(rank)] =
          RunRank(TestEnvironment(rank, 4, file), absl::Milliseconds(700),
                  [](ProcessWorld&) { return absl::OkStatus(); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    ExpectError(status, absl::StatusCode::kDeadlineExceeded,
                {"ranks 2, 3 did not come", "of 4 ranks", "MASTER_ADDR"});
  }
}

TEST(ProcessWorldTest, WithoutRank0) {
  const absl::Status status =
      RunRank(TestEnvironment(1, 2, TestRendezvousFile()), absl::Milliseconds(100),
              [](ProcessWorld&) { return absl::OkStatus(); });
  ExpectError(status, absl::StatusCode::kDeadlineExceeded,
              {"rank 1 of 2", "rank 0 has left no address", "is rank 0 started"});
}

TEST(ProcessWorldTest, ARankOfAnotherWorldIsRefused) {
  const std::string file = TestRendezvousFile();
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      statuses[static_cast<size_t>(rank)] =
          RunRank(TestEnvironment(rank, rank == 0 ? 2 : 3, file), absl::Minutes(5),
                  [](ProcessWorld&) { return absl::OkStatus(); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    ExpectError(status, absl::StatusCode::kInvalidArgument,
                {"rank 1 joined a world of 3 ranks, but rank 0 has a world of 2"});
  }
}

TEST(ProcessWorldTest, APortThatIsTaken) {
  auto taken = Listen("127.0.0.1", 0, /*others_elsewhere=*/false);
  ASSERT_TRUE(taken.ok());
  ProcessEnvironment environment = TestEnvironment(0, 2, "");
  environment.master_port = taken->port;
  const absl::Status status =
      RunRank(environment, absl::Minutes(5), [](ProcessWorld&) { return absl::OkStatus(); });
  ExpectError(status, absl::StatusCode::kAlreadyExists,
              {absl::StrCat("port ", environment.master_port), "MASTER_PORT"});
}

TEST(ProcessWorldTest, AnotherProgramAtThePort) {
  auto listening = Listen("127.0.0.1", 0, /*others_elsewhere=*/false);
  ASSERT_TRUE(listening.ok());
  std::thread other([&] {
    Socket connection;
    while (!connection.is_open()) connection = *Accept(listening->sockets[0]);
    EXPECT_TRUE(SendAll(connection, "220 mail.example.org ready\r\n").ok());
    usleep(100000);
  });
  ProcessEnvironment environment = TestEnvironment(1, 2, "");
  environment.master_port = listening->port;
  const absl::Status status =
      RunRank(environment, absl::Minutes(5), [](ProcessWorld&) { return absl::OkStatus(); });
  other.join();
  ExpectError(status, absl::StatusCode::kUnavailable, {"another program", "MASTER_PORT"});
}

// Real processes: `rank_main` runs in a child for each rank, and one of them kills itself.
class KilledProcessTest : public ::testing::TestWithParam<int> {};

TEST_P(KilledProcessTest, TheOthersLearnOfIt) {
  const int victim = GetParam();
  constexpr int kSize = 3;
  const std::string file = TestRendezvousFile();
  std::vector<pid_t> children;
  for (int rank = 0; rank < kSize; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    const absl::Status status =
        RunRank(TestEnvironment(rank, kSize, file), absl::Minutes(5), [&](ProcessWorld& world) {
          const absl::Status first = PostAndAwait(world, Call(CollectiveOp::kAllGather, 3, "h.1"));
          if (!first.ok()) return first;
          if (rank == victim) kill(getpid(), SIGKILL);
          return PostAndAwait(world, Call(CollectiveOp::kAllGather, 3, "h.2"));
        });
    std::ofstream(absl::StrCat(file, ".", rank)) << status.ToString();
    _exit(0);
  }
  for (int rank = 0; rank < kSize; ++rank) {
    int state = 0;
    ASSERT_EQ(waitpid(children[static_cast<size_t>(rank)], &state, 0),
              children[static_cast<size_t>(rank)]);
    EXPECT_EQ(WIFSIGNALED(state), rank == victim);
    if (rank == victim) continue;
    std::ifstream report(absl::StrCat(file, ".", rank));
    const std::string text((std::istreambuf_iterator<char>(report)), {});
    EXPECT_TRUE(absl::StartsWith(text, "UNAVAILABLE")) << text;
    if (victim == 0) {
      EXPECT_TRUE(absl::StrContains(text, "lost the connection to rank 0's process")) << text;
    } else {
      EXPECT_TRUE(absl::StrContains(text, absl::StrCat("rank ", victim, " failed: its process")))
          << text;
      EXPECT_TRUE(absl::StrContains(text, "its last call was all_gather 'h.1' (call 1")) << text;
    }
  }
}

// Rank 0 of two, which fails when it has made one call.
void ExpectRankZeroToFail(const std::string& file) {
  const absl::Status status =
      RunRank(TestEnvironment(0, 2, file), absl::Minutes(5), [](ProcessWorld& world) {
        absl::Status first = PostAndAwait(world, Call(CollectiveOp::kAllGather, 3, "h.1"));
        return first.ok() ? absl::DataLossError("no more data") : first;
      });
  ExpectError(status, absl::StatusCode::kDataLoss, {"rank 0 failed: no more data"});
}

// Expects `words` in the last message of a process that hangs after another rank broke the world.
void ExpectLastWords(const RankMain& rank_main, const std::vector<std::string>& words) {
  const std::string file = TestRendezvousFile();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (std::freopen((file + ".log").c_str(), "w", stderr) == nullptr) _exit(2);
    HangWatchdog::ShortenForTest(absl::Milliseconds(200));
    RunRank(TestEnvironment(1, 2, file), absl::Minutes(5), rank_main).IgnoreError();
    _exit(0);
  }
  ExpectRankZeroToFail(file);
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == EXIT_FAILURE) << state;
  std::ifstream log(file + ".log");
  const std::string text((std::istreambuf_iterator<char>(log)), {});
  for (const std::string& word : words) {
    EXPECT_TRUE(absl::StrContains(text, word)) << "no '" << word << "' in " << text;
  }
}

// A program that uses this as a library continues, and ends when it wants to.
TEST(HangWatchdogTest, AProcessStaysIfItsCallerSaysSo) {
  const std::string file = TestRendezvousFile();
  const std::string log = file + ".log";
  const auto lines = [&] {
    std::ifstream stream(log);
    return std::string((std::istreambuf_iterator<char>(stream)), {});
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (std::freopen(log.c_str(), "w", stderr) == nullptr) _exit(2);
    HangWatchdog::ShortenForTest(absl::Milliseconds(50));
    LaunchOptions options;
    options.ends_stuck_process = false;
    auto world = ProcessWorld::Join(TestEnvironment(1, 2, file), options, "test");
    if (!world.ok()) _exit(3);
    const absl::Status first = PostAndAwait(**world, Call(CollectiveOp::kAllGather, 3, "h.1"));
    // Waits until the process counts as stuck, and then for a second line, which must not come.
    while (!absl::StrContains(lines(), "this process stays")) usleep(1000);
    usleep(200'000);
    const absl::Status status = (*world)->Return(first);
    world->reset();
    _exit(absl::IsDataLoss(status) ? 7 : 4);
  }
  ExpectRankZeroToFail(file);
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 7) << state << " " << lines();
  const std::string text = lines();
  EXPECT_TRUE(absl::StrContains(text, "this rank's own work has not returned")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

// While this exists, no thread can start in this process: there is no room for so large a stack.
class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t attributes;
    EXPECT_EQ(pthread_getattr_default_np(&attributes), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&attributes, size_t{1} << 50), 0);
    EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
  }
  ~NoThreads() {
    EXPECT_EQ(pthread_setattr_default_np(&before_), 0);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

TEST(NoThreadsTest, RankZeroSaysSo) {
  const NoThreads none;
  const auto fine = [](ProcessWorld&) { return absl::OkStatus(); };
  ExpectError(RunRank(TestEnvironment(0, 1, TestRendezvousFile()), absl::Minutes(5), fine),
              absl::StatusCode::kResourceExhausted,
              {"rank 0 of 1", "a thread for the coordinator"});
}

// Runs rank 1 of 2 in a child, which must end with exit code 0, and returns rank 0's result.
absl::Status RunBesideAChild(const RankMain& rank_main,
                             const std::function<bool(const ProcessEnvironment&)>& child_main) {
  const std::string file = TestRendezvousFile();
  const pid_t child = fork();
  if (child == 0) _exit(child_main(TestEnvironment(1, 2, file)) ? 0 : 1);
  absl::Status status = RunRank(TestEnvironment(0, 2, file), absl::Minutes(5), rank_main);
  int state = 0;
  EXPECT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << state;
  return status;
}

TEST(NoThreadsTest, AnotherRankSaysSo) {
  const auto wait = [](ProcessWorld& world) { return world.Meet(kWorldGroup).status(); };
  const absl::Status status = RunBesideAChild(wait, [&](const ProcessEnvironment& environment) {
    const NoThreads none;
    const absl::Status own = RunRank(environment, absl::Minutes(5), wait);
    return own.code() == absl::StatusCode::kResourceExhausted &&
           absl::StartsWith(own.message(), "rank 1 of 2");
  });
  ExpectError(status, absl::StatusCode::kUnavailable, {"rank 1 failed"});
}

// If no thread can start for the watchdog, the error of a broken world is still reported.
TEST(NoThreadsTest, TheErrorOfTheWorldIsNotLost) {
  const absl::Status status = RunBesideAChild(
      [](ProcessWorld& world) {
        absl::Status met = world.Meet(kWorldGroup).status();
        return met.ok() ? absl::DataLossError("no more data") : met;
      },
      [](const ProcessEnvironment& environment) {
        const absl::Status own =
            RunRank(environment, absl::Minutes(5), [](ProcessWorld& world) -> absl::Status {
              const NoThreads none;
              const absl::Status met = world.Meet(kWorldGroup).status();
              return met.ok() ? world.Meet(kWorldGroup).status() : met;
            });
        return own.code() == absl::StatusCode::kDataLoss;
      });
  ExpectError(status, absl::StatusCode::kDataLoss, {"rank 0 failed: no more data"});
}

// A process that ends well may destroy its watchdog just as that begins to wait.
TEST(HangWatchdogTest, IsNotTakenByAProcessThatEndsAtOnce) {
  for (int i = 0; i < 20'000; ++i) {
    const HangWatchdog unneeded(/*ends_process=*/true, [] { return std::string("taken"); });
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(i % 1000 * 100);
    while (std::chrono::steady_clock::now() < end) {
    }
  }
}

TEST(HangWatchdogTest, EndsAProcessWhoseWorkDoesNotReturn) {
  ExpectLastWords(
      [](ProcessWorld& world) -> absl::Status {
        world.NameUnfinished([] { return std::string("a copy of 7 bytes"); });
        const absl::Status first = PostAndAwait(world, Call(CollectiveOp::kAllGather, 3, "h.1"));
        if (!first.ok()) return first;
        for (;;) pause();
      },
      {"rank 1: DATA_LOSS: rank 0 failed: no more data", "this process ends",
       "this rank's own work has not returned", "all_gather 'h.1' (call 1",
       "unfinished: a copy of 7 bytes"});
}

TEST(HangWatchdogTest, EndsAProcessWhoseTransportDoesNotStop) {
  ExpectLastWords(
      [](ProcessWorld& world) {
        world.OnBreak([] {
          for (;;) pause();
        });
        return PostAndAwait(world, Call(CollectiveOp::kAllGather, 3, "h.1"));
      },
      {"this process ends", "what moves the data has not been stopped"});
}

INSTANTIATE_TEST_SUITE_P(Ranks, KilledProcessTest, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace zeroth
