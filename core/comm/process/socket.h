// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// TCP connections that carry frames: a length of 4 bytes, then that many bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "zeroth/core/base/file/file_descriptor.h"

namespace zeroth {

using Socket = FileDescriptor;

// The longest frame. A peer that announces a longer one speaks another protocol.
inline constexpr uint32_t kMostFrameBytes = 1 << 20;

// Returns `payload` preceded by its length.
std::string Frame(absl::string_view payload);

// Cuts a stream of bytes into frames.
class FrameReader {
 public:
  void Append(absl::string_view bytes) {
    bytes_.erase(0, begin_);
    begin_ = 0;
    bytes_.append(bytes.data(), bytes.size());
  }
  // Returns the next frame, valid until Append; none if it has not arrived completely.
  // InvalidArgument if it is longer than `most`.
  absl::StatusOr<std::optional<absl::string_view>> Next(size_t most = kMostFrameBytes);

 private:
  std::string bytes_;
  size_t begin_ = 0;  // of the next frame
};

// Returns "host:port", with an IPv6 address in brackets: "[::1]:80".
std::string PlaceName(absl::string_view host, int port);

// Sockets that listen on one port, one for each address.
struct Listener {
  std::vector<Socket> sockets;
  int port = 0;
  std::string address;      // at which this process reaches it
  bool everywhere = false;  // listens at all addresses of this machine
  bool reachable = false;   // other machines may connect: not only at loopback addresses
};

// Listens on `port` (0: any) at the addresses that `host` has on this machine. If ranks cannot use
// any of them, it listens at all addresses of this machine, and sets `everywhere` in the result.
// `others_elsewhere`: some ranks are on other machines. AlreadyExists if the port is in use, with
// what to do.
absl::StatusOr<Listener> Listen(const std::string& host, int port, bool others_elsewhere);
// Accepts a connection, as a non-blocking socket. Returns a closed socket if there is none.
// ResourceExhausted if this process or machine can open no more files.
absl::StatusOr<Socket> Accept(const Socket& listening);
// Returns the address of the other end, for messages.
std::string PeerOf(const Socket& socket);

// Tries once to connect to each address of the host, for `timeout` each. Unavailable if nothing
// listens there (yet), or the name is unknown.
absl::StatusOr<Socket> Connect(const std::string& host, int port, absl::Duration timeout);

// Sends all bytes, and blocks until then. Unavailable if the connection is lost. Callers must not
// send at the same time.
absl::Status SendAll(const Socket& socket, absl::string_view bytes);
// Waits at most `timeout_ms` (-1: forever) for bytes, and returns those that have arrived; empty
// after that time. Unavailable if the connection is lost.
absl::StatusOr<std::string> ReceiveSome(const Socket& socket, int timeout_ms);

}  // namespace zeroth
