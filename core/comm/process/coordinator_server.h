// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The coordinator's sockets, and the loop of its thread.

#pragma once

#include "absl/status/statusor.h"

#include "zeroth/core/comm/process/coordinator.h"
#include "zeroth/core/comm/process/socket.h"

namespace zeroth {

// Returns an epoll that watches the listener, and `stop`, an eventfd. Unavailable if the system
// allows no more of either.
absl::StatusOr<Socket> WatchForRanks(const Listener& listener, const Socket& stop);

// Serves the ranks until `stop` becomes readable and the last messages are sent. `epoll` is from
// WatchForRanks.
void ServeRanks(const Coordinator::Options& options, Listener listener, int stop, Socket epoll);

}  // namespace zeroth
