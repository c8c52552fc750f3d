// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/testing/foreign_clients.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "zeroth/core/comm/process/handshake.h"

namespace zeroth::testing {
namespace {

std::string RandomText(std::mt19937& random, size_t bytes) {
  std::string text(bytes, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

// Sends the messages of a handshake for the job `key`, whatever the answers are.
void Greet(const Socket& socket, const JobKey& key, const RankIdentity& who) {
  const RankHandshake handshake(key, std::string(32, 'n'));
  static_cast<void>(SendAll(socket, Frame(handshake.Hello())));
  FrameReader reader;
  while (true) {
    const auto frame = reader.Next();
    if (!frame.ok()) return;
    if (!frame->has_value()) {
      const auto bytes = ReceiveSome(socket, /*timeout_ms=*/1000);
      if (!bytes.ok() || bytes->empty()) return;
      reader.Append(*bytes);
      continue;
    }
    // With a proof of the wrong secret, which the handshake itself would not send.
    WireWriter join = Message(MessageType::kJoin);
    join.I32(who.world_size).I32(who.rank).String(who.back_end).String(std::string(32, 'p'));
    static_cast<void>(SendAll(socket, Frame(join.bytes())));
    // Until it is turned away.
    while (ReceiveSome(socket, /*timeout_ms=*/1000).value_or("").size() > 0) {
    }
    return;
  }
}

}  // namespace

ForeignClients::ForeignClients(Find find, int idle) {
  thread_ = std::thread([this, find = std::move(find), idle] { Run(find, idle); });
}

ForeignClients::~ForeignClients() {
  stop_ = true;
  thread_.join();
}

void ForeignClients::AwaitRounds(int64_t count) const {
  const int64_t enough = rounds_ + count;
  while (rounds_ < enough) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void ForeignClients::Run(const Find& find, int idle) {
  std::optional<MeetingPlace> place;
  while (!stop_ && !(place = find()).has_value()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int i = 0; i < idle && !stop_; ++i) {
    if (auto socket = Come(*place); socket.has_value()) idle_.push_back(*std::move(socket));
  }
  while (!stop_) {
    Round(*place);
    ++rounds_;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::optional<Socket> ForeignClients::Come(const MeetingPlace& place) {
  absl::StatusOr<Socket> socket = Connect(place.host, place.port, absl::Seconds(60));
  ++(socket.ok() ? connected_ : refused_);
  if (!socket.ok()) return std::nullopt;
  return *std::move(socket);
}

void ForeignClients::Round(const MeetingPlace& place) {
  static thread_local std::mt19937 random(7);
  std::vector<std::string> noises = {
      "GET / HTTP/1.1\r\nHost: rank0\r\n\r\n",
      "abc",
      std::string(size_t{1} << 16, '\0'),
      RandomText(random, 1 + random() % 10000),
      Frame(""),
      Frame(RandomText(random, 40)),
      Frame(std::string(kMostHandshakeBytes + 1, 'x')),
      std::string("\xff\xff\xff\xff ...."),
  };
  // Messages that only ranks may send, and wrong handshakes.
  for (int type = 0; type < 80; ++type) {
    WireWriter message;
    message.U8(static_cast<uint8_t>(type)).U32(0).String("a").String("b");
    if (type <= static_cast<int>(MessageType::kAwait)) noises.push_back(Frame(message.bytes()));
  }
  // Another version's, and the first version's, which joined by one message.
  for (const uint32_t version : {kProtocolVersion + 1, uint32_t{1}}) {
    noises.push_back(Frame(Message(MessageType::kHello)
                               .U32(kProtocolMagic)
                               .U32(version)
                               .I32(2)
                               .I32(1)
                               .String("test")
                               .bytes()));
  }
  for (const std::string& noise : noises) {
    if (const auto socket = Come(place); socket.has_value()) {
      static_cast<void>(SendAll(*socket, noise));
    }
  }
  const RankIdentity rank = {2, 1, "test"};
  for (const JobKey& key : {JobKey{"another job", place.key.secret},
                            JobKey{place.key.id, place.key.secret + "?"}, JobKey{}}) {
    if (const auto socket = Come(place); socket.has_value()) Greet(*socket, key, rank);
  }
}

int AffordableConnections(int wanted) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  constexpr rlim_t kOthers = 400;
  const rlim_t both = limit.rlim_cur > kOthers ? (limit.rlim_cur - kOthers) / 2 : 0;
  return static_cast<int>(std::min<rlim_t>(both, static_cast<rlim_t>(wanted)));
}

std::set<int> ListeningPorts() {
  std::set<std::string> own;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.rfind("socket:[", 0) == 0) own.insert(target.substr(8, target.size() - 9));
  }
  std::set<int> ports;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string skip, local, remote, state, inode;
      words >> skip >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
      const bool listens = state == "0A";
      int port = 0;
      if (listens && own.count(inode) > 0 &&
          absl::SimpleHexAtoi(local.substr(local.rfind(':') + 1), &port)) {
        ports.insert(port);
      }
    }
  }
  return ports;
}

}  // namespace zeroth::testing
