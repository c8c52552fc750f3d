// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// TCP connections that carry frames: a length of 4 bytes, then that many bytes.

#ifndef ZEROTH_CORE_COMM_PROCESS_SOCKET_H_
#define ZEROTH_CORE_COMM_PROCESS_SOCKET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace zeroth {

// A file descriptor that is closed in the end.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

// Frames are no longer than this; whoever announces more speaks another protocol.
inline constexpr uint32_t kMostFrameBytes = 1 << 20;

// `payload` behind its length.
std::string Frame(absl::string_view payload);

// Cuts a stream of bytes into frames.
class FrameReader {
 public:
  void Append(absl::string_view bytes) { bytes_.append(bytes.data(), bytes.size()); }
  // The next complete frame; none if it has not all come yet. InvalidArgument if it is longer than
  // `most`.
  absl::StatusOr<std::optional<std::string>> Next(size_t most = kMostFrameBytes);

 private:
  std::string bytes_;
};

// "host:port", as people write it: "[::1]:80".
std::string PlaceName(absl::string_view host, int port);

// Sockets that listen on one port, one for each address.
struct Listener {
  std::vector<Socket> sockets;
  int port = 0;
  std::string address;  // by which this process reaches it
  bool everywhere = false;
};

// Listens on `port` (0: any) at the addresses that `host` has on this machine. Where it has none
// that ranks can use, whom `others_elsewhere` says to be on other machines as well, it listens at
// all of this machine's addresses, and says so in the result. AlreadyExists, with what to do, if
// the port is taken.
absl::StatusOr<Listener> Listen(const std::string& host, int port, bool others_elsewhere);
// A connection that has come in, non-blocking; a closed socket if there is none. ResourceExhausted
// if this process or machine can have no more of them.
absl::StatusOr<Socket> Accept(const Socket& listening);
// Who is at the other end, for messages.
std::string PeerOf(const Socket& socket);

// One attempt to connect to each address of the host, for `timeout` each. Unavailable if nobody
// listens there (yet) or the name is unknown.
absl::StatusOr<Socket> Connect(const std::string& host, int port, absl::Duration timeout);

// Sends everything; blocks. Unavailable if the other side has gone. Thread-safe if callers take
// turns.
absl::Status SendAll(const Socket& socket, absl::string_view bytes);
// What has come, at least one byte, waiting for it at most `timeout_ms` (-1: for ever); empty at
// the end of that time. Unavailable if the other side has gone.
absl::StatusOr<std::string> ReceiveSome(const Socket& socket, int timeout_ms);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PROCESS_SOCKET_H_
