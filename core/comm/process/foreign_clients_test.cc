// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests ranks while other programs connect to their port, and the addresses at which ranks listen.

#include "zeroth/core/comm/process/testing/foreign_clients.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/descriptor_limit.h"
#include "zeroth/core/comm/process/coordinator.h"
#include "zeroth/core/comm/process/handshake.h"
#include "zeroth/core/comm/process/messages.h"
#include "zeroth/core/comm/process/process_world.h"
#include "zeroth/core/comm/process/rendezvous_file.h"
#include "zeroth/core/comm/process/socket.h"
#include "zeroth/core/comm/process/testing/test_environment.h"

namespace zeroth {
namespace {

using testing::AffordableConnections;
using testing::ForeignClients;
using testing::TestEnvironment;
using testing::TestRendezvousFile;

// Runs a world of ranks: each rank hears from all, and all get the same result.
absl::StatusOr<std::string> Talk(ProcessWorld& world, int rounds) {
  std::string heard;
  for (int i = 0; i < rounds; ++i) {
    const auto said = world.Meet(kWorldGroup, absl::StrCat("said by ", world.rank(), ";"));
    if (!said.ok()) return said.status();
    for (const std::string& one : *said) heard += one;
  }
  return heard;
}

std::string Expected(int size, int rounds) {
  std::string heard;
  for (int i = 0; i < rounds; ++i) {
    for (int rank = 0; rank < size; ++rank) absl::StrAppend(&heard, "said by ", rank, ";");
  }
  return heard;
}

LaunchOptions WithTimeout(absl::Duration timeout) {
  LaunchOptions options;
  options.timeout = timeout;
  return options;
}

absl::Status RunRank(
    const ProcessEnvironment& environment, absl::Duration timeout = absl::Minutes(5),
    const std::function<void()>& between = [] {}) {
  auto world = ProcessWorld::Join(environment, WithTimeout(timeout), "test");
  if (!world.ok()) return world.status();
  const auto before = Talk(**world, 20);
  between();
  const auto after = Talk(**world, 20);
  if (before.ok() && after.ok()) {
    EXPECT_EQ(*before, Expected(environment.world_size, 20));
    EXPECT_EQ(*after, Expected(environment.world_size, 20));
  }
  return (*world)->Return(before.ok() ? after.status() : before.status());
}

std::thread StartRank(const ProcessEnvironment& environment, absl::Status& status,
                      absl::Duration timeout = absl::Minutes(5)) {
  return std::thread([&status, environment, timeout] { status = RunRank(environment, timeout); });
}

ForeignClients::Find ByFile(const std::string& file) {
  return [file]() -> std::optional<MeetingPlace> {
    const auto place = ReadRendezvousFile(file);
    return place.ok() ? *place : std::nullopt;
  };
}

// Ranks that meet at an address their launcher has given them.
ProcessEnvironment At(int rank, int world_size, int port, const std::string& id,
                      const std::string& secret = "") {
  ProcessEnvironment environment = TestEnvironment(rank, world_size);
  environment.master_port = port;
  environment.job_id = id;
  environment.job_secret = secret;
  return environment;
}

int FreePort() { return Listen("127.0.0.1", 0, /*others_elsewhere=*/false)->port; }

// Listens where rank 0 would, and answers every Hello with `message`, without a proof.
class Impostor {
 public:
  explicit Impostor(const std::string& message)
      : listener_(*Listen("127.0.0.1", 0, /*others_elsewhere=*/false)),
        thread_([this, answer = Frame(message)] {
          while (!stop_) {
            const auto socket = Accept(listener_.sockets[0]);
            if (!socket.ok() || !socket->is_open()) {
              usleep(1000);
              continue;
            }
            // Closing a connection with unread bytes would discard the answer.
            if (!ReceiveSome(*socket, /*timeout_ms=*/-1).ok()) continue;
            if (SendAll(*socket, answer).ok()) ++answered_;
          }
        }) {}
  ~Impostor() {
    stop_ = true;
    thread_.join();
  }
  int port() const { return listener_.port; }
  void AwaitAnother() const {
    for (const int before = answered_; answered_ == before;) usleep(1000);
  }

 private:
  const Listener listener_;
  std::atomic<bool> stop_{false};
  std::atomic<int> answered_{0};
  std::thread thread_;
};

std::string Refusal(const absl::Status& reason) {
  return StatusMessage(MessageType::kRefused, reason).bytes();
}

void ExpectError(const absl::Status& status, absl::StatusCode code,
                 const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& word : words) {
    EXPECT_TRUE(absl::StrContains(status.message(), word)) << "no '" << word << "' in " << status;
  }
}

// ForeignClients connect while rank 0 is alone, while some ranks have come, and while all work.
TEST(StrangersTest, HarmNobodyAtAnyTime) {
  constexpr int kSize = 4;
  const std::string file = TestRendezvousFile();
  const int idle = AffordableConnections(2000);
  ForeignClients clients(ByFile(file), idle);
  std::vector<absl::Status> statuses(kSize);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kSize; ++rank) {
    ranks.emplace_back([&, rank] {
      statuses[static_cast<size_t>(rank)] =
          RunRank(TestEnvironment(rank, kSize, file), absl::Minutes(5), [&] {
            // The coordinator no longer listens.
            const int64_t refused = clients.refused();
            clients.AwaitRounds(3);
            EXPECT_GT(clients.refused(), refused);
          });
    });
    if (rank + 1 < kSize) clients.AwaitRounds(3);
  }
  for (std::thread& rank : ranks) rank.join();
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(clients.connected(), idle) << "the crowd did not get that far";
  EXPECT_FALSE(std::filesystem::exists(file)) << "the file with the secret is left";
}

// ForeignClients use up the few files that rank 0's process may open.
TEST(StrangersTest, NoFilesAreLeftForThem) {
  const std::string file = TestRendezvousFile();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit few = {40, 40};
    setrlimit(RLIMIT_NOFILE, &few);
    const absl::Status status = RunRank(TestEnvironment(0, 3, file));
    _exit(status.ok() ? 0 : 1);
  }
  absl::Status statuses[2];
  {
    ForeignClients clients(ByFile(file), 200);
    clients.AwaitRounds(1);
    std::thread first = StartRank(TestEnvironment(1, 3, file), statuses[0]);
    clients.AwaitRounds(2);
    std::thread second = StartRank(TestEnvironment(2, 3, file), statuses[1]);
    first.join();
    second.join();
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << state;
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

// Another job, which ends soon, holds the port: the ranks of this job wait for their own rank 0.
TEST(StrangersTest, AnotherJobAtThePortIsWaitedFor) {
  const int port = FreePort();
  absl::Status first[2];
  absl::Status second[2];
  std::thread first0 = StartRank(At(0, 2, port, "job 1"), first[0]);
  std::thread second1 = StartRank(At(1, 2, port, "job 2"), second[1]);
  std::thread lost;
  absl::Status none;
  lost = StartRank(At(1, 2, port, "job 3"), none, absl::Milliseconds(300));
  lost.join();
  ExpectError(none, absl::StatusCode::kDeadlineExceeded,
              {"rank 0 of another job", "'job 3'", "MASTER_PORT"});
  std::thread first1 = StartRank(At(1, 2, port, "job 1"), first[1]);
  first0.join();
  first1.join();
  std::thread second0 = StartRank(At(0, 2, port, "job 2"), second[0]);
  second0.join();
  second1.join();
  for (const absl::Status* status : {&first[0], &first[1], &second[0], &second[1]}) {
    EXPECT_TRUE(status->ok()) << *status;
  }
}

TEST(StrangersTest, AnotherSecretIsSaidAtOnce) {
  const int port = FreePort();
  absl::Status statuses[2];
  std::thread rank0 = StartRank(At(0, 2, port, "job", "secret"), statuses[0]);
  for (const char* secret : {"", "Secret"}) {
    absl::Status wrong;
    StartRank(At(1, 2, port, "job", secret), wrong).join();
    ExpectError(wrong, absl::StatusCode::kUnauthenticated, {"ZEROTH_JOB_SECRET"});
  }
  std::thread rank1 = StartRank(At(1, 2, port, "job", "secret"), statuses[1]);
  rank0.join();
  rank1.join();
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST(StrangersTest, WhoeverProvesNothingIsNotJoined) {
  const std::string refusal = Message(MessageType::kRefused).bytes();
  for (const std::string& answer :
       {refusal, refusal + '\0', Refusal(absl::OkStatus()),
        Refusal(absl::InternalError("more")) + "than that", Message(MessageType::kJoined).bytes(),
        Message(MessageType::kWelcome).bytes()}) {
    const Impostor impostor(answer);
    const auto world = ProcessWorld::Join(At(1, 2, impostor.port(), "job", "secret"),
                                          WithTimeout(absl::Minutes(5)), "test");
    ExpectError(world.status(), absl::StatusCode::kUnavailable, {"another program"});
  }
}

// Rank 0 of another job runs another version of the program.
TEST(StrangersTest, ARefusalWithoutProofIsWaitedOut) {
  auto impostor = std::make_unique<Impostor>(
      Refusal(absl::InvalidArgumentError("rank 0 runs another version\n")));
  const int port = impostor->port();
  absl::Status late;
  StartRank(At(1, 2, port, "job"), late, absl::Milliseconds(300)).join();
  ExpectError(late, absl::StatusCode::kDeadlineExceeded,
              {"runs another version\\n", "not shown that it is of this job", "MASTER_PORT"});
  absl::Status statuses[2];
  std::thread rank1 = StartRank(At(1, 2, port, "job"), statuses[1]);
  impostor->AwaitAnother();
  impostor = nullptr;
  std::thread rank0 = StartRank(At(0, 2, port, "job"), statuses[0]);
  rank0.join();
  rank1.join();
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

// Without an id or a secret, a rank that does not fit may be of another job: only it is refused.
TEST(StrangersTest, WhoMayBeAnotherJobsIsRefusedAlone) {
  const int port = FreePort();
  absl::Status statuses[2];
  std::thread rank0 = StartRank(At(0, 2, port, ""), statuses[0]);
  absl::Status other;
  StartRank(At(2, 3, port, ""), other).join();
  ExpectError(other, absl::StatusCode::kInvalidArgument, {"joined a world of 3 ranks"});
  absl::Status twin;
  StartRank(At(0, 2, port, ""), twin).join();
  ExpectError(twin, absl::StatusCode::kAlreadyExists, {"MASTER_PORT"});
  std::thread rank1 = StartRank(At(1, 2, port, ""), statuses[1]);
  rank0.join();
  rank1.join();
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST(StrangersTest, TheTimeoutNamesWhoWasTurnedAway) {
  const int port = FreePort();
  absl::Status status;
  std::thread rank0 = StartRank(At(0, 2, port, "job"), status, absl::Milliseconds(800));
  absl::Status other;
  StartRank(At(1, 2, port, "another"), other, absl::Milliseconds(300)).join();
  rank0.join();
  ExpectError(status, absl::StatusCode::kDeadlineExceeded,
              {"rank 1 did not come", "Turned away were", "a rank of another job, 'another'"});
}

// The coordinator does not wait for connections that send nothing, or less than a Hello.
TEST(CoordinatorTest, SilentConnectionsAreClosed) {
  Coordinator::Options options;
  options.world_size = 2;
  options.handshake_time = absl::Milliseconds(100);
  const auto coordinator = Coordinator::Start(options);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  for (const char* said : {"", "abc"}) {
    const auto socket =
        Connect((*coordinator)->address(), (*coordinator)->port(), absl::Seconds(60));
    ASSERT_TRUE(socket.ok()) << socket.status();
    ASSERT_TRUE(SendAll(*socket, said).ok());
    ExpectError(ReceiveSome(*socket, /*timeout_ms=*/-1).status(), absl::StatusCode::kUnavailable,
                {"closed the connection"});
  }
}

TEST(CoordinatorTest, WarnsWhereOthersCanConnectWithoutASecret) {
  const auto warning = [](const std::string& host, const std::string& secret) {
    Coordinator::Options options;
    options.world_size = 2;
    options.back_end = "test";
    options.host = host;
    options.key = {"id", secret};
    ::testing::internal::CaptureStderr();
    const absl::Status status = Coordinator::Start(options).status();
    const std::string printed = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(status, absl::OkStatus());
    return printed;
  };
  // Warns if other machines can reach the address, even if all ranks are on this one.
  EXPECT_TRUE(absl::StrContains(warning("0.0.0.0", ""), "Set ZEROTH_JOB_SECRET"));
  EXPECT_EQ(warning("0.0.0.0", "secret"), "");
  EXPECT_EQ(warning("127.0.0.1", ""), "");
}

TEST(CoordinatorTest, RaisesTheLimitOnOpenFilesOrSaysThatItIsTooLow) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  Coordinator::Options options;
  options.world_size = 100;
  EXPECT_EQ(Coordinator::Start(options).status(), absl::OkStatus());
  rlimit raised = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &raised), 0);
  EXPECT_GE(raised.rlim_cur, rlim_t{100});
  // Fewer ranks fit into the limit, which stays.
  options.world_size = 2;
  EXPECT_EQ(Coordinator::Start(options).status(), absl::OkStatus());
  rlimit kept = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &kept), 0);
  EXPECT_EQ(kept.rlim_cur, raised.rlim_cur);
  EXPECT_LT(raised.rlim_cur, rlim_t{1000}) << "only as far as needed";
  // Files that are open, such as those of the data, need room as well.
  std::vector<Socket> files;
  while (OpenDescriptors() < raised.rlim_cur - 20) files.emplace_back(dup(0));
  options.world_size = 15;
  EXPECT_EQ(Coordinator::Start(options).status(), absl::OkStatus());
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &kept), 0);
  EXPECT_GE(kept.rlim_cur, raised.rlim_cur + 15);
  files.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max >= rlim_t{std::numeric_limits<int>::max()}) return;  // never too low
  // Rank 0 also needs files of its own.
  options.world_size = static_cast<int>(before.rlim_max) - 10;
  ExpectError(Coordinator::Start(options).status(), absl::StatusCode::kResourceExhausted,
              {"ulimit -Hn", absl::StrCat("may open only ", before.rlim_max)});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

// A connection that claims to be both ranks counts as one.
TEST(CoordinatorTest, AConnectionIsOneRank) {
  Coordinator::Options options;
  options.world_size = 2;
  options.back_end = "test";
  options.key = {"id", "secret"};
  const auto coordinator = Coordinator::Start(options);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  const auto socket = Connect((*coordinator)->address(), (*coordinator)->port(), absl::Seconds(60));
  ASSERT_TRUE(socket.ok()) << socket.status();
  FrameReader reader;
  const auto receive = [&]() -> absl::StatusOr<std::string> {
    for (;;) {
      const auto frame = reader.Next();
      if (!frame.ok()) return frame.status();
      if (frame->has_value()) return std::string(**frame);
      const auto bytes = ReceiveSome(*socket, /*timeout_ms=*/-1);
      if (!bytes.ok()) return bytes.status();
      reader.Append(*bytes);
    }
  };
  const RankHandshake handshake(options.key, std::string(32, 'n'));
  ASSERT_TRUE(SendAll(*socket, Frame(handshake.Hello())).ok());
  const auto challenge = receive();
  ASSERT_TRUE(challenge.ok()) << challenge.status();
  const auto join_as = [&](int rank) -> absl::Status {
    const auto join = handshake.Join(*challenge, {2, rank, "test"});
    return join.ok() ? SendAll(*socket, Frame(*join)) : join.status();
  };
  ASSERT_TRUE(join_as(0).ok());
  const auto joined = receive();
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(*joined, Message(MessageType::kJoined).bytes());
  ASSERT_TRUE(join_as(1).ok());
  ExpectError(receive().status(), absl::StatusCode::kUnavailable, {"closed the connection"});
}

// A port of one address is not open at others.
TEST(ListenTest, AtTheRendezvousAddressAlone) {
  const auto listener = Listen("127.0.0.1", 0, /*others_elsewhere=*/true);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_FALSE(listener->everywhere);
  EXPECT_TRUE(Connect("127.0.0.1", listener->port, absl::Seconds(60)).ok());
  EXPECT_FALSE(Connect("127.0.0.2", listener->port, absl::Seconds(60)).ok());
}

TEST(ListenTest, EverywhereWhereTheNameIsNotOfThisMachine) {
  // An address for documents (RFC 5737).
  const auto listener = Listen("192.0.2.1", 0, /*others_elsewhere=*/true);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(listener->everywhere);
  EXPECT_TRUE(Connect(listener->address, listener->port, absl::Seconds(60)).ok());
}

// Behaves like a machine that does not answer: nothing accepts connections, and the queue is full.
TEST(ConnectTest, EndsInTime) {
  const auto listener = Listen("127.0.0.1", 0, /*others_elsewhere=*/false);
  ASSERT_TRUE(listener.ok()) << listener.status();
  ASSERT_EQ(listen(listener->sockets[0].descriptor(), /*backlog=*/0), 0);
  std::vector<Socket> queued;
  absl::Status last;
  while (last.ok() && queued.size() < 10) {
    auto socket = Connect("127.0.0.1", listener->port, absl::Milliseconds(300));
    last = socket.status();
    if (socket.ok()) queued.push_back(*std::move(socket));
  }
  ExpectError(last, absl::StatusCode::kUnavailable, {"Connection timed out"});
}

TEST(ListenTest, ByIpVersion6) {
  const auto listener = Listen("::1", 0, /*others_elsewhere=*/false);
  ASSERT_TRUE(listener.ok()) << listener.status();
  if (listener->everywhere) GTEST_SKIP() << "this machine has no IPv6";
  EXPECT_EQ(PlaceName("::1", 80), "[::1]:80");
  absl::Status statuses[2];
  const int port = Listen("::1", 0, /*others_elsewhere=*/false)->port;
  std::vector<std::thread> ranks;
  for (int rank : {0, 1}) {
    ProcessEnvironment environment = At(rank, 2, port, "job");
    environment.master_addr = "::1";
    ranks.push_back(StartRank(environment, statuses[rank]));
  }
  for (std::thread& rank : ranks) rank.join();
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

const MeetingPlace kPlace = {"node7", 1234, {"id", "secret"}};

TEST(RendezvousFileTest, IsThisUsersAlone) {
  const std::string file = TestRendezvousFile();
  ASSERT_TRUE(WriteRendezvousFile(file, kPlace).ok());
  struct stat status = {};
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  auto place = ReadRendezvousFile(file);
  ASSERT_TRUE(place.ok() && place->has_value()) << place.status();
  EXPECT_EQ((*place)->ToText(), kPlace.ToText());
  ASSERT_EQ(chmod(file.c_str(), 0620), 0);
  ExpectError(ReadRendezvousFile(file).status(), absl::StatusCode::kPermissionDenied,
              {"written by other users", "ZEROTH_RENDEZVOUS_FILE"});
}

TEST(RendezvousFileTest, LinksAndPipesAreNotFollowed) {
  const std::string file = TestRendezvousFile();
  const std::string target = file + ".target";
  std::ofstream(target) << "precious";
  ASSERT_EQ(symlink(target.c_str(), file.c_str()), 0);
  ExpectError(ReadRendezvousFile(file).status(), absl::StatusCode::kPermissionDenied,
              {"symbolic link"});
  ASSERT_TRUE(WriteRendezvousFile(file, kPlace).ok());
  EXPECT_FALSE(std::filesystem::is_symlink(file));
  std::string left;
  std::ifstream(target) >> left;
  EXPECT_EQ(left, "precious");
  const std::string pipe = file + ".pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ExpectError(ReadRendezvousFile(pipe).status(), absl::StatusCode::kPermissionDenied,
              {"not a regular file"});
}

TEST(RendezvousFileTest, OnlyItsOwnerRemovesIt) {
  const std::string file = TestRendezvousFile();
  ASSERT_TRUE(WriteRendezvousFile(file, kPlace).ok());
  MeetingPlace other = kPlace;
  other.key.id = "another";
  RemoveRendezvousFile(file, other);
  EXPECT_TRUE(std::filesystem::exists(file));
  RemoveRendezvousFile(file, kPlace);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(RendezvousFileTest, AFileWithoutAnAddressCountsAsAbsent) {
  const std::string file = TestRendezvousFile();
  for (const char* text : {"", "127.0.0.1 80\n", "zeroth-rendezvous-2 host 0 id secret\n",
                           "zeroth-rendezvous-2 host 80 id secret"}) {
    std::ofstream(file) << text;
    chmod(file.c_str(), 0600);
    const auto place = ReadRendezvousFile(file);
    EXPECT_TRUE(place.ok() && !place->has_value()) << text << place.status();
  }
}

}  // namespace
}  // namespace zeroth
