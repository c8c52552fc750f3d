// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/coordinator.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/thread.h"
#include "zeroth/core/comm/process/coordinator_world.h"

namespace zeroth {
namespace {

using Clock = std::chrono::steady_clock;

// How long the destructor waits for a rank to read its last messages.
constexpr auto kFlushTime = std::chrono::seconds(5);
constexpr int kLongestPollMs = 1000;
// The most connections that have not joined, beside one for each rank. Beyond that, a new
// connection replaces the oldest, so that a crowd can neither keep a rank out nor use up this
// process's files.
constexpr size_t kMostUnknown = 128;
// Connections that are accepted before the others are read.
constexpr int kMostAtOnce = 64;
// The pause after this process could open no more files; some may be closed soon.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

// Moves bytes in and out of the connections. CoordinatorWorld handles the messages.
class Server {
 public:
  Server(const Coordinator::Options& options, Listener listener, int stop)
      : key_(options.key),
        handshake_time_(absl::ToChronoMilliseconds(options.handshake_time)),
        most_unknown_(kMostUnknown + static_cast<size_t>(options.world_size)),
        world_(options, listener.port),
        listening_(std::move(listener.sockets)),
        stop_(stop) {}

  void Run() {
    while (!stopping_ || HasOutput()) {
      if (stopping_ && Clock::now() > flush_until_) break;
      Poll();
      if (!stopping_) world_.CheckTimeouts(Clock::now());
      TurnAwaySilent();
      Collect();
      if (world_.started() && !listening_.empty()) CloseDoor();
    }
  }

 private:
  struct Connection {
    Socket socket;
    std::string peer;
    Clock::time_point since;
    // Null once the connection is a rank's.
    std::unique_ptr<CoordinatorHandshake> handshake;
    FrameReader reader;
    std::string output;
    bool leaving = false;  // is closed once its output is sent
    bool lost = false;
  };

  bool HasOutput() const {
    return std::any_of(connections_.begin(), connections_.end(),
                       [](const auto& connection) { return !connection.second.output.empty(); });
  }

  void Poll() {
    std::vector<pollfd> waits = {{stopping_ ? -1 : stop_, POLLIN, 0}};
    std::vector<size_t> of_connection;
    for (const auto& [index, connection] : connections_) {
      const short events = static_cast<short>(POLLIN | (connection.output.empty() ? 0 : POLLOUT));
      waits.push_back({connection.socket.descriptor(), events, 0});
      of_connection.push_back(index);
    }
    const Clock::time_point now = Clock::now();
    const bool accepts = !stopping_ && now >= accept_after_;
    for (const Socket& listening : listening_) {
      waits.push_back({accepts ? listening.descriptor() : -1, POLLIN, 0});
    }
    int64_t wait_ms = kLongestPollMs;
    const auto no_later_than = [&](Clock::time_point then) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(then - now).count() + 1;
      wait_ms = std::clamp<int64_t>(left, 0, wait_ms);
    };
    if (const auto next = world_.NextTimeout(); next.has_value() && !stopping_) {
      no_later_than(*next);
    }
    if (!listening_.empty() && !accepts) no_later_than(accept_after_);
    if (poll(waits.data(), waits.size(), static_cast<int>(wait_ms)) <= 0) return;
    if (waits[0].revents != 0) {
      stopping_ = true;
      flush_until_ = Clock::now() + kFlushTime;
    }
    for (size_t i = 0; i < of_connection.size(); ++i) {
      const short happened = waits[i + 1].revents;
      if ((happened & (POLLIN | POLLHUP | POLLERR)) != 0) Read(of_connection[i]);
      if ((happened & POLLOUT) != 0) Write(connections_.at(of_connection[i]));
    }
    for (size_t i = 0; i < listening_.size(); ++i) {
      if (waits[1 + of_connection.size() + i].revents != 0) AcceptSome(listening_[i]);
    }
  }

  void AcceptSome(const Socket& listening) {
    for (int i = 0; i < kMostAtOnce; ++i) {
      absl::StatusOr<Socket> socket = Accept(listening);
      if (!socket.ok()) {
        // Only connections that have not joined make room.
        if (TurnAwayOldest("no more files can be opened")) continue;
        world_.TurnedAway(std::string(socket.status().message()));
        accept_after_ = Clock::now() + kAcceptPause;
        return;
      }
      if (!socket->is_open()) return;
      absl::StatusOr<std::string> nonce = NewNonce();
      if (!nonce.ok()) {
        world_.TurnedAway(std::string(nonce.status().message()));
        return;
      }
      if (unknown_ >= most_unknown_) static_cast<void>(TurnAwayOldest("too many have come since"));
      Connection& connection = connections_[next_connection_++];
      connection.peer = PeerOf(*socket);
      connection.socket = *std::move(socket);
      connection.since = Clock::now();
      connection.handshake = std::make_unique<CoordinatorHandshake>(key_, *std::move(nonce));
      ++unknown_;
    }
  }

  // Turns away a connection that has not joined.
  void TurnAway(Connection& connection, absl::string_view why) {
    if (connection.lost || connection.leaving) return;
    world_.TurnedAway(absl::StrCat("a connection from ", connection.peer, ", which ", why));
    connection.leaving = true;
  }

  // Returns false if all connections are ranks.
  bool TurnAwayOldest(absl::string_view why) {
    for (auto& [index, connection] : connections_) {
      if (connection.handshake == nullptr || connection.lost) continue;
      TurnAway(connection, absl::StrCat("had not joined yet (", why, ")"));
      connection.lost = true;
      Forget();
      return true;
    }
    return false;
  }

  void TurnAwaySilent() {
    const Clock::time_point limit = Clock::now() - handshake_time_;
    for (auto& [index, connection] : connections_) {
      // The map is in the order in which connections came.
      if (connection.since > limit) return;
      if (connection.handshake == nullptr) continue;
      TurnAway(connection, "did not say in time who it is");
      connection.lost = true;
    }
  }

  void CloseDoor() {
    listening_.clear();
    for (auto& [index, connection] : connections_) {
      if (connection.handshake == nullptr) continue;
      TurnAway(connection, "had not joined when all ranks were there");
      connection.lost = true;
    }
    Collect();
  }

  void Read(size_t index) {
    Connection& connection = connections_.at(index);
    const absl::StatusOr<std::string> bytes = ReceiveSome(connection.socket, /*timeout_ms=*/0);
    if (!bytes.ok()) {
      if (connection.handshake != nullptr) TurnAway(connection, "went away without having joined");
      connection.lost = true;
      return;
    }
    if (connection.leaving) return;
    connection.reader.Append(*bytes);
    while (!connection.leaving && !connection.lost) {
      const bool is_rank = connection.handshake == nullptr;
      const absl::StatusOr<std::optional<std::string>> frame =
          connection.reader.Next(is_rank ? kMostFrameBytes : kMostHandshakeBytes);
      if (frame.ok() && !frame->has_value()) return;
      if (is_rank) {
        connection.lost = !frame.ok() || !world_.Handle(index, **frame);
      } else if (!frame.ok()) {
        TurnAway(connection, "did not send a Zeroth handshake");
      } else {
        Greet(index, connection, **frame);
      }
    }
  }

  void Greet(size_t index, Connection& connection, absl::string_view frame) {
    const CoordinatorHandshake::Step step = connection.handshake->Handle(frame);
    if (!step.reply.empty()) connection.output += Frame(step.reply);
    if (!step.fault.empty()) {
      TurnAway(connection, step.fault);
    } else if (step.joins.has_value()) {
      const absl::Status joined = world_.Join(index, *step.joins);
      if (joined.ok()) {
        connection.handshake = nullptr;
        --unknown_;
      } else {
        connection.output += Frame(StatusMessage(MessageType::kRefused, joined).bytes());
        TurnAway(connection, absl::StrCat("does not fit: ", joined.message()));
      }
    }
    Write(connection);
  }

  void Write(Connection& connection) {
    while (!connection.output.empty()) {
      const ssize_t sent = send(connection.socket.descriptor(), connection.output.data(),
                                connection.output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) connection.lost = true;
        return;
      }
      connection.output.erase(0, static_cast<size_t>(sent));
    }
  }

  // Sends the world's messages and removes lost connections, until neither leads to the other.
  void Collect() {
    do {
      for (auto& [index, frame] : world_.TakeOutput()) {
        const auto found = connections_.find(index);
        if (found == connections_.end() || found->second.lost) continue;
        found->second.output += Frame(frame);
        Write(found->second);
      }
    } while (Forget());
  }

  // Removes the connections that are lost or done. Returns true if a rank was among them.
  bool Forget() {
    bool rank = false;
    for (auto at = connections_.begin(); at != connections_.end();) {
      const Connection& connection = at->second;
      if (!connection.lost && !(connection.leaving && connection.output.empty())) {
        ++at;
        continue;
      }
      const size_t index = at->first;
      const bool is_rank = connection.handshake == nullptr;
      at = connections_.erase(at);
      if (is_rank) {
        world_.Disconnected(index);
        rank = true;
      } else {
        --unknown_;
      }
    }
    return rank;
  }

  const JobKey key_;
  const std::chrono::milliseconds handshake_time_;
  const size_t most_unknown_;
  CoordinatorWorld world_;
  std::vector<Socket> listening_;  // empty: all ranks have joined
  const int stop_;
  std::map<size_t, Connection> connections_;  // by number, in the order in which they came
  size_t next_connection_ = 0;
  size_t unknown_ = 0;  // connections that have not joined
  Clock::time_point accept_after_;
  bool stopping_ = false;
  Clock::time_point flush_until_;
};

}  // namespace

Coordinator::Coordinator(std::string address, int port, Socket stop) noexcept
    : address_(std::move(address)), port_(port), stop_(std::move(stop)) {}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(const Options& options) {
  ZEROTH_ASSIGN_OR_RETURN(Listener listener,
                          Listen(options.host, options.port, options.others_elsewhere));
  if (listener.everywhere) {
    std::fprintf(stderr,
                 "rank 0: '%s' does not resolve to a reachable local address; listening on all "
                 "interfaces, port %d, until all ranks have joined\n",
                 options.host.c_str(), listener.port);
  }
  Socket stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.is_open()) {
    return absl::UnavailableError(absl::StrCat("cannot create an eventfd: ", std::strerror(errno)));
  }
  std::unique_ptr<Coordinator> coordinator(
      new Coordinator(listener.address, listener.port, std::move(stop)));
  ZEROTH_ASSIGN_OR_RETURN(
      coordinator->thread_,
      StartThread("the coordinator", [options, stop = coordinator->stop_.descriptor(),
                                      listener = std::move(listener)]() mutable {
        Server(options, std::move(listener), stop).Run();
      }));
  return coordinator;
}

Coordinator::~Coordinator() {
  static_cast<void>(eventfd_write(stop_.descriptor(), 1));
  if (thread_.joinable()) thread_.join();
}

}  // namespace zeroth
