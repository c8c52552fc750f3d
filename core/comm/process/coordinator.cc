// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/coordinator.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/process/coordinator_world.h"

namespace zeroth {
namespace {

using Clock = std::chrono::steady_clock;

// How long the end waits for messages that a rank does not read.
constexpr auto kFlushTime = std::chrono::seconds(5);
constexpr int kLongestPollMs = 1000;

// The connections: bytes in and out. What they mean is CoordinatorWorld's.
class Server {
 public:
  Server(const Coordinator::Options& options, int port, int listening, int stop)
      : world_(options, port), listening_(listening), stop_(stop) {}

  void Run(const Socket& listening) {
    while (!stopping_ || HasOutput()) {
      if (stopping_ && Clock::now() > flush_until_) break;
      Poll(listening);
      if (!stopping_) world_.CheckTimeouts(Clock::now());
      Collect();
    }
  }

 private:
  struct Connection {
    Socket socket;
    FrameReader reader;
    std::string output;
    bool lost = false;
  };

  bool HasOutput() const {
    return std::any_of(connections_.begin(), connections_.end(), [](const auto& connection) {
      return connection != nullptr && !connection->output.empty();
    });
  }

  void Poll(const Socket& listening) {
    std::vector<pollfd> waits = {{stopping_ ? -1 : stop_, POLLIN, 0},
                                 {stopping_ ? -1 : listening_, POLLIN, 0}};
    std::vector<size_t> of_connection;
    for (size_t i = 0; i < connections_.size(); ++i) {
      if (connections_[i] == nullptr) continue;
      const short events =
          static_cast<short>(POLLIN | (connections_[i]->output.empty() ? 0 : POLLOUT));
      waits.push_back({connections_[i]->socket.descriptor(), events, 0});
      of_connection.push_back(i);
    }
    int wait_ms = kLongestPollMs;
    if (const auto next = world_.NextTimeout(); next.has_value() && !stopping_) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(*next - Clock::now()).count() + 1;
      wait_ms = static_cast<int>(std::clamp<int64_t>(left, 0, kLongestPollMs));
    }
    if (poll(waits.data(), waits.size(), wait_ms) <= 0) return;
    if (waits[0].revents != 0) {
      stopping_ = true;
      flush_until_ = Clock::now() + kFlushTime;
    }
    for (size_t i = 0; i < of_connection.size(); ++i) {
      const short happened = waits[i + 2].revents;
      if ((happened & (POLLIN | POLLHUP | POLLERR)) != 0) Read(of_connection[i]);
      if ((happened & POLLOUT) != 0) Write(*connections_[of_connection[i]]);
    }
    if (waits[1].revents != 0) AcceptOne(listening);
  }

  void AcceptOne(const Socket& listening) {
    absl::StatusOr<Socket> socket = Accept(listening);
    if (!socket.ok()) {
      world_.Fail(socket.status());
      return;
    }
    if (!socket->is_open()) return;
    connections_.push_back(std::make_unique<Connection>());
    connections_.back()->socket = *std::move(socket);
  }

  void Read(size_t index) {
    Connection& connection = *connections_[index];
    const absl::StatusOr<std::string> bytes = ReceiveSome(connection.socket, /*timeout_ms=*/0);
    if (!bytes.ok()) {
      connection.lost = true;
      return;
    }
    connection.reader.Append(*bytes);
    for (;;) {
      const absl::StatusOr<std::optional<std::string>> frame = connection.reader.Next();
      // Whoever sends something else is no rank.
      if (!frame.ok() || (frame->has_value() && !world_.Handle(index, **frame))) {
        connection.lost = true;
        return;
      }
      if (!frame->has_value()) return;
    }
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

  // Hands out what the world has to say, and clears away connections that are gone; which may give
  // it more to say.
  void Collect() {
    bool more = true;
    while (more) {
      more = false;
      for (auto& [index, frame] : world_.TakeOutput()) {
        if (connections_[index] == nullptr || connections_[index]->lost) continue;
        connections_[index]->output += Frame(frame);
        Write(*connections_[index]);
      }
      for (size_t i = 0; i < connections_.size(); ++i) {
        if (connections_[i] == nullptr || !connections_[i]->lost) continue;
        connections_[i] = nullptr;
        world_.Disconnected(i);
        more = true;
      }
    }
  }

  CoordinatorWorld world_;
  const int listening_;
  const int stop_;
  std::vector<std::unique_ptr<Connection>> connections_;  // null: gone
  bool stopping_ = false;
  Clock::time_point flush_until_;
};

}  // namespace

Coordinator::Coordinator(Socket listening, int port, Socket stop) noexcept
    : listening_(std::move(listening)), port_(port), stop_(std::move(stop)) {}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(const Options& options) {
  ZEROTH_ASSIGN_OR_RETURN(Socket listening, Listen(options.port, options.loopback_only));
  ZEROTH_ASSIGN_OR_RETURN(const int port, PortOf(listening));
  Socket stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.is_open()) {
    return absl::UnavailableError(absl::StrCat("cannot create an eventfd: ", std::strerror(errno)));
  }
  std::unique_ptr<Coordinator> coordinator(
      new Coordinator(std::move(listening), port, std::move(stop)));
  coordinator->thread_ = std::thread([self = coordinator.get(), options] {
    Server(options, self->port_, self->listening_.descriptor(), self->stop_.descriptor())
        .Run(self->listening_);
  });
  return coordinator;
}

Coordinator::~Coordinator() {
  static_cast<void>(eventfd_write(stop_.descriptor(), 1));
  thread_.join();
}

}  // namespace zeroth
