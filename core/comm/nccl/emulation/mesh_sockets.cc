// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/emulation/mesh_sockets.h"

#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/process/messages.h"

namespace zeroth::nccl::emulation {

std::atomic<bool> stall_transfers{false};
std::atomic<bool> fail_next_transfer{false};

namespace {

constexpr int kPollMs = 10;

// The kernel names local sockets by five hexadecimal digits after a zero. They do not run out,
// unlike TCP ports, which are few and stay reserved for a minute after use.
constexpr socklen_t kFamilyOnly = sizeof(sa_family_t);
constexpr int kNameDigits = 5;
constexpr socklen_t kLocalName = kFamilyOnly + 1 + kNameDigits;

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

union Address {
  sockaddr any;
  sockaddr_in tcp;
  sockaddr_un local;
};

// Returns the IPv4 address of the interface that NCCL's own variable names; 0 without it.
absl::StatusOr<in_addr_t> InterfaceAddress() {
  const char* const name = std::getenv("NCCL_SOCKET_IFNAME");
  if (name == nullptr || *name == '\0') return in_addr_t{0};
  const Socket socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = {};
  std::snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
  if (!socket.is_open() || ioctl(socket.descriptor(), SIOCGIFADDR, &request) != 0) {
    return SystemError(absl::StrCat("the IPv4 address of NCCL_SOCKET_IFNAME=", name));
  }
  sockaddr_in address = {};
  std::memcpy(&address, &request.ifr_addr, sizeof(address));
  return address.sin_addr.s_addr;
}

absl::StatusOr<Socket> Listen() {
  ZEROTH_ASSIGN_OR_RETURN(const in_addr_t interface, InterfaceAddress());
  Address address = {};
  socklen_t length = kFamilyOnly;
  address.any.sa_family = AF_UNIX;
  if (interface != 0) {
    address.tcp = {};
    address.tcp.sin_family = AF_INET;
    address.tcp.sin_addr.s_addr = interface;
    length = sizeof(address.tcp);
  }
  Socket socket(::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open() || bind(socket.descriptor(), &address.any, length) != 0 ||
      listen(socket.descriptor(), SOMAXCONN) != 0) {
    return SystemError("listening");
  }
  return socket;
}

absl::StatusOr<SocketPlace> SocketPlaceOf(const Socket& listening) {
  Address address = {};
  socklen_t length = sizeof(address);
  if (getsockname(listening.descriptor(), &address.any, &length) != 0) {
    return SystemError("the name of a socket");
  }
  if (address.any.sa_family == AF_INET) {
    return SocketPlace{address.tcp.sin_addr.s_addr} << 32 | address.tcp.sin_port;
  }
  unsigned name = 0;
  if (std::sscanf(address.local.sun_path + 1, "%5x", &name) != 1) {
    return absl::InternalError("a local socket has an unexpected name");
  }
  return SocketPlace{name};
}

// Waits until `socket` is connected, or returns why it is not.
absl::Status AwaitConnection(const Socket& socket, const AbortTest& aborted) {
  while (!aborted()) {
    pollfd wait = {socket.descriptor(), POLLOUT, 0};
    if (poll(&wait, 1, kPollMs) <= 0) continue;
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (error == 0) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("connecting: ", std::strerror(error)));
  }
  return absl::AbortedError("aborted");
}

// Messages of a few bytes must not wait for more of them. Does nothing to local sockets.
void SendAtOnce(const Socket& socket) {
  const int on = 1;
  setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

absl::StatusOr<Socket> ConnectTo(SocketPlace place, const AbortTest& aborted) {
  Address address = {};
  socklen_t length = kLocalName;
  if (const auto host = static_cast<in_addr_t>(place >> 32); host != 0) {
    address.tcp.sin_family = AF_INET;
    address.tcp.sin_addr.s_addr = host;
    address.tcp.sin_port = static_cast<in_port_t>(place);
    length = sizeof(address.tcp);
  } else {
    address.local.sun_family = AF_UNIX;
    std::snprintf(address.local.sun_path + 1, sizeof(address.local.sun_path) - 1, "%0*x",
                  kNameDigits, static_cast<unsigned>(place));
  }
  // Local sockets connect at once or, if many others do, after waiting.
  const int waits = address.any.sa_family == AF_INET ? SOCK_NONBLOCK : 0;
  Socket socket(::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | waits, 0));
  if (!socket.is_open()) return SystemError("making a socket");
  if (connect(socket.descriptor(), &address.any, length) != 0) {
    if (errno != EINPROGRESS) return SystemError("connecting");
    ZEROTH_RETURN_IF_ERROR(AwaitConnection(socket, aborted));
  }
  SendAtOnce(socket);
  return socket;
}

absl::StatusOr<Socket> AcceptWaiting(const Socket& listening) {
  Socket socket(accept4(listening.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open() && errno != EAGAIN && errno != EINTR) return SystemError("accepting");
  if (socket.is_open()) SendAtOnce(socket);
  return socket;
}

absl::Status Aborted() { return absl::AbortedError("aborted"); }

// Receives a whole frame, or returns an error; polls `aborted` meanwhile.
absl::StatusOr<std::string> ReceiveFrame(const Socket& socket, const AbortTest& aborted) {
  FrameReader reader;
  while (!aborted()) {
    // Byte by byte, because the bytes after the frame belong to transfers.
    ZEROTH_ASSIGN_OR_RETURN(const std::optional<absl::string_view> frame, reader.Next());
    if (frame.has_value()) return std::string(*frame);
    pollfd wait = {socket.descriptor(), POLLIN, 0};
    if (poll(&wait, 1, kPollMs) <= 0) continue;
    char byte = 0;
    const ssize_t received = recv(socket.descriptor(), &byte, 1, MSG_DONTWAIT);
    if (received == 1) {
      reader.Append(absl::string_view(&byte, 1));
    } else if (received == 0 || (errno != EAGAIN && errno != EINTR)) {
      return absl::UnavailableError("a peer has gone");
    }
  }
  return Aborted();
}

absl::StatusOr<Socket> AcceptOne(const Socket& listening, const AbortTest& aborted) {
  while (!aborted()) {
    pollfd wait = {listening.descriptor(), POLLIN, 0};
    if (poll(&wait, 1, kPollMs) <= 0) continue;
    ZEROTH_ASSIGN_OR_RETURN(Socket socket, AcceptWaiting(listening));
    if (socket.is_open()) return socket;
  }
  return Aborted();
}

// All-gathers the places of the ranks' sockets.
absl::Status Meet(const Socket& listening) {
  // If some ranks never join, the meeting ends with the process, as in the real library.
  const AbortTest never = [] { return false; };
  std::vector<Socket> sockets;
  std::vector<SocketPlace> places;
  size_t present = 0;
  do {
    ZEROTH_ASSIGN_OR_RETURN(Socket socket, AcceptOne(listening, never));
    ZEROTH_ASSIGN_OR_RETURN(const std::string frame, ReceiveFrame(socket, never));
    WireReader reader(frame);
    const size_t ranks = reader.U32();
    const size_t rank = reader.U32();
    const SocketPlace place = reader.U64();
    if (!reader.IsComplete() || rank >= ranks) continue;
    sockets.resize(ranks);
    places.resize(ranks);
    sockets[rank] = std::move(socket);
    places[rank] = place;
    ++present;
  } while (present == 0 || present < places.size());
  WireWriter table;
  for (const SocketPlace place : places) table.U64(place);
  for (const Socket& socket : sockets) {
    // If a rank has ended meanwhile, those that connect to it notice.
    static_cast<void>(SendAll(socket, Frame(table.bytes())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SocketPlace> ServeMeeting() {
  ZEROTH_ASSIGN_OR_RETURN(Socket listening, Listen());
  ZEROTH_ASSIGN_OR_RETURN(const SocketPlace place, SocketPlaceOf(listening));
  std::thread([listening = std::move(listening)] { static_cast<void>(Meet(listening)); }).detach();
  return place;
}

absl::StatusOr<std::shared_ptr<MeshSockets>> MeshSockets::Connect(SocketPlace meeting_place,
                                                                  int ranks, int rank,
                                                                  const AbortTest& aborted) {
  ZEROTH_ASSIGN_OR_RETURN(const Socket listening, Listen());
  ZEROTH_ASSIGN_OR_RETURN(const SocketPlace own_place, SocketPlaceOf(listening));
  ZEROTH_ASSIGN_OR_RETURN(const Socket meeting, ConnectTo(meeting_place, aborted));
  WireWriter hello;
  hello.I32(ranks).I32(rank).U64(own_place);
  ZEROTH_RETURN_IF_ERROR(SendAll(meeting, Frame(hello.bytes())));
  ZEROTH_ASSIGN_OR_RETURN(const std::string table, ReceiveFrame(meeting, aborted));
  WireReader places(table);

  auto mesh = std::make_shared<MeshSockets>();
  mesh->sockets_.resize(static_cast<size_t>(ranks));
  for (int peer = 0; peer < rank; ++peer) {
    ZEROTH_ASSIGN_OR_RETURN(Socket socket, ConnectTo(places.U64(), aborted));
    ZEROTH_RETURN_IF_ERROR(SendAll(socket, Frame(WireWriter().I32(rank).bytes())));
    mesh->sockets_[static_cast<size_t>(peer)] = std::move(socket);
  }
  for (int more = rank + 1; more < ranks; ++more) {
    ZEROTH_ASSIGN_OR_RETURN(Socket socket, AcceptOne(listening, aborted));
    ZEROTH_ASSIGN_OR_RETURN(const std::string frame, ReceiveFrame(socket, aborted));
    const int peer = WireReader(frame).I32();
    if (peer <= rank || peer >= ranks) return absl::InternalError("a stranger among the ranks");
    mesh->sockets_[static_cast<size_t>(peer)] = std::move(socket);
  }
  return mesh;
}

uint64_t MeshSockets::TakeNumber() {
  std::lock_guard<std::mutex> lock(mutex_);
  return taken_++;
}

bool MeshSockets::IsIdle() {
  std::lock_guard<std::mutex> lock(mutex_);
  return done_ == taken_ || aborted_;
}

void MeshSockets::Abort() {
  std::lock_guard<std::mutex> lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

absl::Status MeshSockets::Run(uint64_t number, const std::vector<Transfer>& transfers) {
  bool failed = false;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return done_ == number || aborted_; });
    failed = failed_;
  }
  absl::Status status = aborted_ ? Aborted() : absl::OkStatus();
  if (failed) status.Update(absl::UnavailableError("an earlier transfer has failed"));
  if (status.ok()) status = Move(transfers);
  std::lock_guard<std::mutex> lock(mutex_);
  if (!status.ok()) failed_ = true;
  ++done_;
  changed_.notify_all();
  return status;
}

absl::Status MeshSockets::Move(const std::vector<Transfer>& transfers) {
  // The remaining transfers with each peer, and the progress of the first.
  struct Queue {
    std::deque<Transfer> left;
    void Advance(size_t bytes) {
      left.front().data += bytes;
      left.front().bytes -= bytes;
      DropEmpty();
    }
    void DropEmpty() {
      while (!left.empty() && left.front().bytes == 0) left.pop_front();
    }
  };
  std::vector<Queue> sends(sockets_.size());
  std::vector<Queue> receives(sockets_.size());
  for (const Transfer& transfer : transfers) {
    auto& queues = transfer.is_send ? sends : receives;
    queues[static_cast<size_t>(transfer.peer)].left.push_back(transfer);
  }
  for (size_t peer = 0; peer < sockets_.size(); ++peer) {
    sends[peer].DropEmpty();
    receives[peer].DropEmpty();
    if (sockets_[peer].is_open()) continue;
    // To itself.
    while (!sends[peer].left.empty() && !receives[peer].left.empty()) {
      const size_t bytes =
          std::min(sends[peer].left.front().bytes, receives[peer].left.front().bytes);
      std::memmove(receives[peer].left.front().data, sends[peer].left.front().data, bytes);
      sends[peer].Advance(bytes);
      receives[peer].Advance(bytes);
    }
  }
  if (fail_next_transfer.exchange(false)) return absl::UnavailableError("injected");
  for (;;) {
    if (aborted_) return Aborted();
    std::vector<pollfd> waits;
    std::vector<size_t> peers;
    for (size_t peer = 0; peer < sockets_.size(); ++peer) {
      const short events = static_cast<short>((sends[peer].left.empty() ? 0 : POLLOUT) |
                                              (receives[peer].left.empty() ? 0 : POLLIN));
      if (events == 0) continue;
      waits.push_back({sockets_[peer].descriptor(), events, 0});
      peers.push_back(peer);
    }
    if (waits.empty()) return absl::OkStatus();
    if (stall_transfers) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
      continue;
    }
    if (poll(waits.data(), waits.size(), kPollMs) <= 0) continue;
    for (size_t i = 0; i < waits.size(); ++i) {
      const int descriptor = waits[i].fd;
      Queue& send_queue = sends[peers[i]];
      Queue& receive_queue = receives[peers[i]];
      ssize_t moved = 1;
      if ((waits[i].revents & POLLOUT) != 0) {
        moved = send(descriptor, send_queue.left.front().data, send_queue.left.front().bytes,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
        if (moved > 0) send_queue.Advance(static_cast<size_t>(moved));
      }
      if (moved > 0 && (waits[i].revents & (POLLIN | POLLHUP)) != 0 &&
          !receive_queue.left.empty()) {
        moved = recv(descriptor, receive_queue.left.front().data, receive_queue.left.front().bytes,
                     MSG_DONTWAIT);
        if (moved > 0) receive_queue.Advance(static_cast<size_t>(moved));
      }
      const bool again = moved < 0 && (errno == EAGAIN || errno == EINTR);
      if ((moved <= 0 && !again) || (waits[i].revents & (POLLERR | POLLNVAL)) != 0) {
        return absl::UnavailableError(
            absl::StrCat("the connection to rank ", peers[i], " is lost"));
      }
    }
  }
}

}  // namespace zeroth::nccl::emulation
