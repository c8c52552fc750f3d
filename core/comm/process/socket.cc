// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/process/messages.h"

namespace zeroth {
namespace {

constexpr size_t kLengthBytes = 4;

std::string LastError() { return std::strerror(errno); }

void SetOption(int descriptor, int level, int option, int value) {
  // An error is ignored: without the option the connection still works.
  static_cast<void>(setsockopt(descriptor, level, option, &value, sizeof(value)));
}

// Sends small messages at once. Notices within a minute that the peer's machine has gone, also if
// nothing is sent.
void Configure(int descriptor) {
  SetOption(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 15);
  SetOption(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  SetOption(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 6);
  SetOption(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, 45000);
}

// The sockets for a machine's addresses need one port that is free at all of them, so listening on
// any port may take several attempts.
constexpr int kPortAttempts = 20;

struct Address {
  union {
    sockaddr_storage storage = {};
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t size = sizeof(storage);

  int family() const { return storage.ss_family; }
  void SetPort(int port) {
    (family() == AF_INET6 ? v6.sin6_port : v4.sin_port) = htons(static_cast<uint16_t>(port));
  }
  int Port() const { return ntohs(family() == AF_INET6 ? v6.sin6_port : v4.sin_port); }
  bool IsLoopback() const {
    return family() == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0
                                : ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  // The numeric address, without the port.
  std::string Host() const {
    char host[NI_MAXHOST] = {};
    if (getnameinfo(&any, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) return "?";
    return host;
  }
};

// `flags` as for getaddrinfo.
absl::StatusOr<std::vector<Address>> Resolve(const std::string& host, int port, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot resolve the name '", host, "': ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    Address address;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
    // Some addresses are listed twice.
    const bool known = std::any_of(addresses.begin(), addresses.end(), [&](const Address& other) {
      return other.size == address.size &&
             std::memcmp(&other.storage, &address.storage, address.size) == 0;
    });
    if (!known) addresses.push_back(address);
  }
  return addresses;
}

// True for a numeric address or "localhost", which stand for one address only.
bool IsLiteral(const std::string& host) {
  return host == "localhost" || Resolve(host, 0, AI_NUMERICHOST).ok();
}

absl::StatusOr<Address> OwnAddress(const Socket& socket) {
  Address address;
  if (getsockname(socket.descriptor(), &address.any, &address.size) != 0) {
    return absl::InternalError(absl::StrCat("cannot tell a socket's port: ", LastError()));
  }
  return address;
}

// Returns a closed socket if the address is not one of this machine's.
absl::StatusOr<Socket> ListenAt(const Address& address) {
  const auto fail = [&] {
    const bool taken = errno == EADDRINUSE;
    const std::string message = absl::StrCat(
        "cannot listen on port ", address.Port(), ": ", LastError(),
        taken ? "; another program has it: set MASTER_PORT (or ZEROTH_STORE_PORT) to a free port, "
                "the same on all ranks"
              : "");
    return taken ? absl::AlreadyExistsError(message) : absl::UnavailableError(message);
  };
  Socket socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) {
    if (errno == EAFNOSUPPORT) return Socket();
    return fail();
  }
  SetOption(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) {
    // Only the wildcard address accepts IPv4 connections as well.
    const bool any = IN6_IS_ADDR_UNSPECIFIED(&address.v6.sin6_addr);
    SetOption(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, any ? 0 : 1);
  }
  if (bind(socket.descriptor(), &address.any, address.size) != 0) {
    if (errno == EADDRNOTAVAIL) return Socket();
    return fail();
  }
  if (listen(socket.descriptor(), SOMAXCONN) != 0) return fail();
  return socket;
}

absl::Status ListenAtAll(const std::vector<Address>& addresses, int port, Listener& listener) {
  listener.port = port;
  for (Address address : addresses) {
    address.SetPort(listener.port);
    ZEROTH_ASSIGN_OR_RETURN(Socket socket, ListenAt(address));
    if (!socket.is_open()) continue;
    if (listener.sockets.empty()) {
      ZEROTH_ASSIGN_OR_RETURN(const Address own, OwnAddress(socket));
      listener.port = own.Port();
      listener.address = address.Host();
    }
    listener.reachable |= !address.IsLoopback();
    listener.sockets.push_back(std::move(socket));
  }
  return absl::OkStatus();
}

// Waits until the connection is made or has failed. Sets errno on failure.
bool AwaitConnection(const Socket& socket, absl::Duration timeout) {
  const absl::Duration most = absl::Milliseconds(1 << 30);
  pollfd wait = {socket.descriptor(), POLLOUT, 0};
  const auto ms = static_cast<int>(absl::ToInt64Milliseconds(std::min(timeout, most)));
  int ready = -1;
  do {
    ready = poll(&wait, 1, ms);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    errno = ETIMEDOUT;
    return false;
  }
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return false;
  errno = error;
  return error == 0;
}

}  // namespace

std::string Frame(absl::string_view payload) { return WireWriter().String(payload).bytes(); }

absl::StatusOr<std::optional<absl::string_view>> FrameReader::Next(size_t most) {
  const absl::string_view left = absl::string_view(bytes_).substr(begin_);
  if (left.size() < kLengthBytes) return std::optional<absl::string_view>();
  const uint32_t size = WireReader(left).U32();
  if (size > most) {
    return InvalidArgument("a message announces ", size, " bytes, expected at most ", most);
  }
  if (left.size() < kLengthBytes + size) return std::optional<absl::string_view>();
  begin_ += kLengthBytes + size;
  return std::optional<absl::string_view>(left.substr(kLengthBytes, size));
}

std::string PlaceName(absl::string_view host, int port) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

absl::StatusOr<Listener> Listen(const std::string& host, int port, bool others_elsewhere) {
  // Other machines may know a name that this one does not.
  std::vector<Address> addresses = Resolve(host, port, 0).value_or(std::vector<Address>());
  if (others_elsewhere && !IsLiteral(host)) {
    // Many machines resolve their own name to loopback, which other machines cannot reach.
    addresses.erase(std::remove_if(addresses.begin(), addresses.end(),
                                   [](const Address& address) { return address.IsLoopback(); }),
                    addresses.end());
  }
  absl::Status failed;
  for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
    Listener listener;
    failed = ListenAtAll(addresses, port, listener);
    if (failed.ok() && !listener.sockets.empty()) return listener;
    // The port was free at the first address, but not at another one.
    if (!failed.ok() && port == 0 && absl::IsAlreadyExists(failed)) continue;
    break;
  }
  ZEROTH_RETURN_IF_ERROR(failed);
  // The IPv6 wildcard accepts IPv4 connections as well. Without IPv6, the other one is used.
  for (const char* wildcard : {"::", "0.0.0.0"}) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<Address> all,
                            Resolve(wildcard, port, AI_NUMERICHOST));
    Listener listener;
    ZEROTH_RETURN_IF_ERROR(ListenAtAll(all, port, listener));
    if (listener.sockets.empty()) continue;
    listener.everywhere = true;
    listener.address = "127.0.0.1";
    return listener;
  }
  return absl::UnavailableError(
      absl::StrCat("cannot listen on port ", port, ": this machine has no address"));
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
    default:  // the peer has closed the connection again
      return socket;
  }
}

std::string PeerOf(const Socket& socket) {
  Address address;
  if (getpeername(socket.descriptor(), &address.any, &address.size) != 0) return "somebody";
  return PlaceName(address.Host(), address.Port());
}

absl::StatusOr<Socket> Connect(const std::string& host, int port, absl::Duration timeout) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<Address> addresses, Resolve(host, port, 0));
  std::string message = absl::StrCat("the name '", host, "' has no address");
  for (const Address& address : addresses) {
    Socket socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.is_open()) {
      message = absl::StrCat("cannot open a socket: ", LastError());
      continue;
    }
    Configure(socket.descriptor());
    if (connect(socket.descriptor(), &address.any, address.size) == 0 ||
        (errno == EINPROGRESS && AwaitConnection(socket, timeout))) {
      return socket;
    }
    message = absl::StrCat("cannot connect to ", PlaceName(host, port), ": ", LastError());
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
    // Most callers know that bytes are there.
    const ssize_t received = recv(socket.descriptor(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      pollfd wait = {socket.descriptor(), POLLIN, 0};
      if (poll(&wait, 1, timeout_ms) == 0) return std::string();
      continue;
    }
    if (received > 0) return std::string(buffer, static_cast<size_t>(received));
    if (received == 0) return absl::UnavailableError("the other side has closed the connection");
    if (errno != EINTR) {
      return absl::UnavailableError(absl::StrCat("cannot receive: ", LastError()));
    }
  }
}

}  // namespace zeroth
