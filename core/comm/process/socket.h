// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// TCP connections that carry frames: a length of 4 bytes, then that many bytes.

#ifndef ZEROTH_CORE_COMM_PROCESS_SOCKET_H_
#define ZEROTH_CORE_COMM_PROCESS_SOCKET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

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
  // The next complete frame; none if it has not all come yet. InvalidArgument if it is too long.
  absl::StatusOr<std::optional<std::string>> Next();

 private:
  std::string bytes_;
};

// Listens on `port` (0: any), for this machine alone or for all who can reach it. AlreadyExists,
// with what to do, if the port is taken.
absl::StatusOr<Socket> Listen(int port, bool loopback_only);
absl::StatusOr<int> PortOf(const Socket& listening);
// A connection that has come in, non-blocking; a closed socket if there is none.
absl::StatusOr<Socket> Accept(const Socket& listening);

// One attempt to connect. Unavailable if nobody listens there (yet) or the name is unknown.
absl::StatusOr<Socket> Connect(const std::string& host, int port);

// Sends everything; blocks. Unavailable if the other side has gone. Thread-safe if callers take
// turns.
absl::Status SendAll(const Socket& socket, absl::string_view bytes);
// What has come, at least one byte, waiting for it at most `timeout_ms` (-1: for ever); empty at
// the end of that time. Unavailable if the other side has gone.
absl::StatusOr<std::string> ReceiveSome(const Socket& socket, int timeout_ms);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PROCESS_SOCKET_H_
