// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/coordinator_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "zeroth/core/comm/process/coordinator_world.h"
#include "zeroth/core/comm/process/handshake.h"
#include "zeroth/core/comm/process/messages.h"
#include "zeroth/core/comm/process/socket.h"

namespace zeroth {
namespace {

// How long the destructor waits for a rank to read its last messages.
constexpr auto kFlushTime = std::chrono::seconds(5);
constexpr int kLongestPollMs = 1000;
// The most connections that are read in one round; the answers are sent after it.
constexpr size_t kMostEvents = 4096;
// The numbers of what epoll watches. Connections have those from kFirstConnection on.
constexpr uint64_t kStop = 0;
constexpr uint64_t kFirstListener = 1;
constexpr size_t kFirstConnection = size_t{1} << 32;
// The limit on connections that have not joined, in addition to one for each rank. Beyond that, a
// new connection replaces the oldest, so that a crowd can neither keep a rank out nor use up this
// process's files.
constexpr size_t kMostUnknown = 128;
// Connections that are accepted before the others are read.
constexpr int kMostAtOnce = 64;
// The pause after this process could open no more files; some may be closed soon.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

// Adds, changes or removes a descriptor of `epoll`. Adding may fail for lack of memory, or at the
// user's limit of watches.
bool Watch(const Socket& epoll, int operation, int descriptor, uint32_t what, uint64_t of) {
  epoll_event event = {};
  event.events = what;
  event.data.u64 = of;
  return epoll_ctl(epoll.descriptor(), operation, descriptor, &event) == 0;
}

// Moves bytes in and out of the connections. CoordinatorWorld handles the messages. The work of a
// round is proportional to the number of events, not of connections.
class Server {
 public:
  // `epoll` watches `stop`, which becomes readable when the server has to stop, and the listener.
  Server(const Coordinator::Options& options, Listener listener, int stop, Socket epoll)
      : key_(options.key),
        handshake_time_(absl::ToChronoMilliseconds(options.handshake_time)),
        most_unknown_(kMostUnknown + static_cast<size_t>(options.world_size)),
        world_(options, listener.port),
        listening_(std::move(listener.sockets)),
        stop_(stop),
        epoll_(std::move(epoll)),
        events_(kMostEvents) {}

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
  using Clock = std::chrono::steady_clock;
  using SharedFrame = std::shared_ptr<const std::string>;
  struct Connection {
    Socket socket;
    std::string peer;
    Clock::time_point since;
    // Null once the connection is a rank's.
    std::unique_ptr<CoordinatorHandshake> handshake;
    FrameReader reader;
    std::vector<SharedFrame> output;  // not yet sent
    size_t sent = 0;                  // bytes sent of the first message in `output`
    bool waits_to_write = false;
    bool leaving = false;  // is closed once its output is sent
    bool lost = false;
  };

  bool HasOutput() const {
    return std::any_of(connections_.begin(), connections_.end(),
                       [](const auto& connection) { return !connection.second.output.empty(); });
  }

  void SetAccepting(bool accepting) {
    if (std::exchange(accepting_, accepting) == accepting) return;
    for (size_t i = 0; i < listening_.size(); ++i) {
      static_cast<void>(Watch(epoll_, EPOLL_CTL_MOD, listening_[i].descriptor(),
                              accepting ? uint32_t{EPOLLIN} : 0, kFirstListener + i));
    }
  }

  void Poll() {
    const Clock::time_point now = Clock::now();
    SetAccepting(!stopping_ && now >= accept_after_);
    int64_t wait_ms = kLongestPollMs;
    const auto no_later_than = [&](Clock::time_point then) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(then - now).count() + 1;
      wait_ms = std::clamp<int64_t>(left, 0, wait_ms);
    };
    if (const auto next = world_.NextTimeout(); next.has_value() && !stopping_) {
      no_later_than(*next);
    }
    if (!listening_.empty() && !accepting_ && !stopping_) no_later_than(accept_after_);
    const int count = epoll_wait(epoll_.descriptor(), events_.data(),
                                 static_cast<int>(events_.size()), static_cast<int>(wait_ms));
    std::vector<size_t> accepting;
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events_[static_cast<size_t>(i)];
      const uint64_t of = event.data.u64;
      if (of == kStop) {
        stopping_ = true;
        flush_until_ = Clock::now() + kFlushTime;
        static_cast<void>(Watch(epoll_, EPOLL_CTL_DEL, stop_, 0, kStop));
      } else if (of < kFirstConnection) {
        accepting.push_back(of - kFirstListener);
      } else if (connections_.contains(of)) {
        if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Read(of);
        if ((event.events & EPOLLOUT) != 0) Write(of, connections_.at(of));
      }
    }
    // Last, because it may remove connections.
    for (const size_t i : accepting) {
      if (i < listening_.size()) AcceptSome(listening_[i]);
    }
  }

  void AcceptSome(const Socket& listening) {
    for (int i = 0; i < kMostAtOnce; ++i) {
      absl::StatusOr<Socket> socket = Accept(listening);
      if (!socket.ok()) {
        // Only connections that have not joined make room.
        if (TurnAwayOldest("no more files can be opened")) continue;
        world_.ReportRejected(std::string(socket.status().message()));
        accept_after_ = Clock::now() + kAcceptPause;
        return;
      }
      if (!socket->is_open()) return;
      absl::StatusOr<std::string> nonce = NewNonce();
      if (!nonce.ok()) {
        world_.ReportRejected(std::string(nonce.status().message()));
        return;
      }
      if (unknown_.size() >= most_unknown_) TurnAwayOldest("too many have come since");
      const size_t index = next_connection_++;
      Connection& connection = connections_[index];
      connection.peer = PeerOf(*socket);
      connection.socket = *std::move(socket);
      connection.since = Clock::now();
      connection.handshake = std::make_unique<CoordinatorHandshake>(key_, *std::move(nonce));
      unknown_.insert(index);
      if (!Watch(epoll_, EPOLL_CTL_ADD, connection.socket.descriptor(), EPOLLIN, index)) {
        TurnAway(index, absl::StrCat("epoll cannot watch: ", std::strerror(errno)));
        Lose(index);
      }
    }
  }

  // Marks the connection as lost; Forget removes it.
  void Lose(size_t index) {
    connections_.at(index).lost = true;
    ended_.push_back(index);
  }

  // Turns away a connection that has not joined.
  void TurnAway(size_t index, absl::string_view why) {
    Connection& connection = connections_.at(index);
    if (connection.lost || connection.leaving) return;
    world_.ReportRejected(absl::StrCat("a connection from ", connection.peer, ", which ", why));
    connection.leaving = true;
    ended_.push_back(index);
  }

  // Returns false if all connections are ranks.
  bool TurnAwayOldest(absl::string_view why) {
    for (const size_t index : unknown_) {
      if (connections_.at(index).lost) continue;
      TurnAway(index, absl::StrCat("had not joined yet (", why, ")"));
      Lose(index);
      Forget();
      return true;
    }
    return false;
  }

  void TurnAwaySilent() {
    const Clock::time_point limit = Clock::now() - handshake_time_;
    for (const size_t index : unknown_) {
      // They are in the order in which they came.
      if (connections_.at(index).since > limit) return;
      TurnAway(index, "did not say in time who it is");
      Lose(index);
    }
  }

  // Ends the watch of a socket before it is closed: a forked child may hold a copy, whose events
  // would otherwise continue.
  void Unwatch(const Socket& socket) {
    static_cast<void>(Watch(epoll_, EPOLL_CTL_DEL, socket.descriptor(), 0, 0));
  }

  void CloseDoor() {
    for (const Socket& listening : listening_) Unwatch(listening);
    listening_.clear();
    for (const size_t index : unknown_) {
      TurnAway(index, "had not joined when all ranks were there");
      Lose(index);
    }
    Collect();
  }

  void Read(size_t index) {
    Connection& connection = connections_.at(index);
    const absl::StatusOr<std::string> bytes = ReceiveSome(connection.socket, /*timeout_ms=*/0);
    if (!bytes.ok()) {
      if (connection.handshake != nullptr) TurnAway(index, "went away without having joined");
      Lose(index);
      return;
    }
    if (connection.leaving) return;
    connection.reader.Append(*bytes);
    while (!connection.leaving && !connection.lost) {
      const bool is_rank = connection.handshake == nullptr;
      const absl::StatusOr<std::optional<absl::string_view>> frame =
          connection.reader.Next(is_rank ? kMostFrameBytes : kMostHandshakeBytes);
      if (frame.ok() && !frame->has_value()) return;
      if (is_rank) {
        if (!frame.ok() || !world_.Handle(index, **frame)) Lose(index);
      } else if (!frame.ok()) {
        TurnAway(index, "did not send a Zeroth handshake");
      } else {
        Greet(index, connection, **frame);
      }
    }
  }

  void Greet(size_t index, Connection& connection, absl::string_view frame) {
    const CoordinatorHandshake::Step step = connection.handshake->Handle(frame);
    // Precedes the reply: if sending that fails, the connection is lost, and TurnAway would ignore
    // it.
    if (!step.fault.empty()) TurnAway(index, step.fault);
    if (!step.reply.empty()) Send(index, connection, FrameOf(step.reply));
    if (step.fault.empty() && step.joins.has_value()) {
      const absl::Status joined = world_.Join(index, *step.joins);
      if (joined.ok()) {
        connection.handshake = nullptr;
        unknown_.erase(index);
      } else {
        TurnAway(index, absl::StrCat("does not fit: ", joined.message()));
        Send(index, connection, FrameOf(StatusMessage(MessageType::kRefused, joined).bytes()));
      }
    }
  }

  static SharedFrame FrameOf(absl::string_view payload) {
    return std::make_shared<const std::string>(Frame(payload));
  }

  void Send(size_t index, Connection& connection, const SharedFrame& message) {
    connection.output.push_back(message);
    if (!connection.waits_to_write) Write(index, connection);
  }

  void Write(size_t index, Connection& connection) {
    size_t done = 0;
    while (done < connection.output.size() && !connection.lost) {
      const std::string& message = *connection.output[done];
      const ssize_t sent = send(connection.socket.descriptor(), message.data() + connection.sent,
                                message.size() - connection.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK) Lose(index);
        break;
      }
      connection.sent += static_cast<size_t>(sent);
      if (connection.sent < message.size()) continue;
      connection.sent = 0;
      ++done;
    }
    connection.output.erase(connection.output.begin(),
                            connection.output.begin() + static_cast<ptrdiff_t>(done));
    const bool waits = !connection.output.empty() && !connection.lost;
    if (std::exchange(connection.waits_to_write, waits) != waits &&
        !Watch(epoll_, EPOLL_CTL_MOD, connection.socket.descriptor(),
               waits ? EPOLLIN | EPOLLOUT : EPOLLIN, index)) {
      Lose(index);
    }
    if (connection.leaving && connection.output.empty()) ended_.push_back(index);
  }

  // Sends the world's messages and removes lost connections, until neither leads to the other.
  void Collect() {
    do {
      for (const CoordinatorWorld::Output& output : world_.TakeOutput()) {
        const SharedFrame message = FrameOf(output.message);
        for (const size_t index : output.connections) {
          const auto found = connections_.find(index);
          if (found == connections_.end() || found->second.lost) continue;
          Send(index, found->second, message);
        }
      }
    } while (Forget());
  }

  // Removes the connections that are lost or done. Returns true if a rank was among them.
  bool Forget() {
    bool rank = false;
    for (const size_t index : std::exchange(ended_, {})) {
      const auto found = connections_.find(index);
      if (found == connections_.end()) continue;
      const Connection& connection = found->second;
      // Write adds it again when it is done.
      if (!connection.lost && !connection.output.empty()) continue;
      const bool is_rank = connection.handshake == nullptr;
      unknown_.erase(index);
      Unwatch(connection.socket);
      connections_.erase(found);
      if (is_rank) world_.Disconnected(index);
      rank |= is_rank;
    }
    return rank;
  }

  const JobKey key_;
  const std::chrono::milliseconds handshake_time_;
  const size_t most_unknown_;
  CoordinatorWorld world_;
  std::vector<Socket> listening_;  // empty: all ranks have joined
  const int stop_;
  const Socket epoll_;
  std::vector<epoll_event> events_;
  std::unordered_map<size_t, Connection> connections_;  // by number
  size_t next_connection_ = kFirstConnection;
  std::set<size_t> unknown_;   // those that have not joined, in the order in which they came
  std::vector<size_t> ended_;  // those that are lost or leaving
  bool accepting_ = true;
  Clock::time_point accept_after_;
  bool stopping_ = false;
  Clock::time_point flush_until_;
};

}  // namespace

absl::StatusOr<Socket> WatchForRanks(const Listener& listener, const Socket& stop) {
  Socket epoll(epoll_create1(EPOLL_CLOEXEC));
  bool watches = epoll.is_open() && Watch(epoll, EPOLL_CTL_ADD, stop.descriptor(), EPOLLIN, kStop);
  for (size_t i = 0; i < listener.sockets.size() && watches; ++i) {
    watches =
        Watch(epoll, EPOLL_CTL_ADD, listener.sockets[i].descriptor(), EPOLLIN, kFirstListener + i);
  }
  if (watches) return epoll;
  return absl::UnavailableError(
      absl::StrCat("cannot wait for connections by epoll: ", std::strerror(errno)));
}

void ServeRanks(const Coordinator::Options& options, Listener listener, int stop, Socket epoll) {
  Server(options, std::move(listener), stop, std::move(epoll)).Run();
}

}  // namespace zeroth
