// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/process/wire.h"

namespace zeroth {
namespace {

constexpr size_t kLengthBytes = 4;

std::string LastError() { return std::strerror(errno); }

void SetOption(int descriptor, int level, int option, int value) {
  // Without these a connection still works, only later or slower.
  static_cast<void>(setsockopt(descriptor, level, option, &value, sizeof(value)));
}

// Small messages at once, and a peer whose machine has gone is noticed within a minute although
// nothing is sent.
void Configure(int descriptor) {
  SetOption(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 15);
  SetOption(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  SetOption(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 6);
  SetOption(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, 45000);
}

}  // namespace

Socket::~Socket() {
  if (is_open()) static_cast<void>(close(descriptor_));
}

std::string Frame(absl::string_view payload) { return WireWriter().String(payload).bytes(); }

absl::StatusOr<std::optional<std::string>> FrameReader::Next() {
  if (bytes_.size() < kLengthBytes) return std::optional<std::string>();
  const uint32_t size = WireReader(bytes_).U32();
  if (size > kMostFrameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message announces ", size, " bytes, expected at most ", kMostFrameBytes));
  }
  if (bytes_.size() < kLengthBytes + size) return std::optional<std::string>();
  std::optional<std::string> frame = bytes_.substr(kLengthBytes, size);
  bytes_.erase(0, kLengthBytes + size);
  return frame;
}

absl::StatusOr<Socket> Listen(int port, bool loopback_only) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) {
    return absl::UnavailableError(absl::StrCat("cannot open a socket: ", LastError()));
  }
  SetOption(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, 1);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
  if (bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
          0 ||
      listen(socket.descriptor(), SOMAXCONN) != 0) {
    const bool taken = errno == EADDRINUSE;
    const std::string message = absl::StrCat(
        "cannot listen on port ", port, ": ", LastError(),
        taken ? "; another program has it: set MASTER_PORT (or ZEROTH_STORE_PORT) to a free port, "
                "the same on all ranks"
              : "");
    return taken ? absl::AlreadyExistsError(message) : absl::UnavailableError(message);
  }
  return socket;
}

absl::StatusOr<int> PortOf(const Socket& listening) {
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  if (getsockname(listening.descriptor(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return absl::InternalError(absl::StrCat("cannot tell a socket's port: ", LastError()));
  }
  return static_cast<int>(ntohs(address.sin_port));
}

absl::StatusOr<Socket> Accept(const Socket& listening) {
  Socket socket(accept4(listening.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.is_open()) {
    Configure(socket.descriptor());
    return socket;
  }
  switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot accept a connection: ", LastError(),
                       "; raise the limit of open files (ulimit -n)"));
    default:  // a connection that went away again
      return socket;
  }
}

absl::StatusOr<Socket> Connect(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot resolve the name '", host, "': ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  std::string message;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.is_open()) {
      return absl::UnavailableError(absl::StrCat("cannot open a socket: ", LastError()));
    }
    Configure(socket.descriptor());
    if (connect(socket.descriptor(), address->ai_addr, address->ai_addrlen) == 0) return socket;
    message = absl::StrCat("cannot connect to ", host, ":", port, ": ", LastError());
  }
  return absl::UnavailableError(message);
}

absl::Status SendAll(const Socket& socket, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd wait = {socket.descriptor(), POLLOUT, 0};
      static_cast<void>(poll(&wait, 1, -1));
    } else if (errno != EINTR) {
      return absl::UnavailableError(absl::StrCat("cannot send: ", LastError()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReceiveSome(const Socket& socket, int timeout_ms) {
  char buffer[16384];
  for (;;) {
    pollfd wait = {socket.descriptor(), POLLIN, 0};
    const int ready = poll(&wait, 1, timeout_ms);
    if (ready == 0) return std::string();
    const ssize_t received =
        ready < 0 ? -1 : recv(socket.descriptor(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (received > 0) return std::string(buffer, static_cast<size_t>(received));
    if (received == 0) return absl::UnavailableError("the other side has closed the connection");
    if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
      return absl::UnavailableError(absl::StrCat("cannot receive: ", LastError()));
    }
  }
}

}  // namespace zeroth
