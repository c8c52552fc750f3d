// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For tests: other programs that connect to the port at which ranks meet. They must not disturb
// ranks.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "zeroth/core/comm/process/rendezvous_file.h"
#include "zeroth/core/comm/process/socket.h"

namespace zeroth::testing {

// Connects again and again. It sends random bytes, requests of other protocols, nothing, messages
// that only ranks may send, handshakes of another job, and handshakes with this job's id but not
// its secret. Most connections end again; some stay open and silent.
class ForeignClients {
 public:
  // Returns none while nothing listens.
  using Find = std::function<std::optional<MeetingPlace>()>;

  // Until destroyed, connects in rounds to the place that `find` returns; waits while it returns
  // none. The first round also makes `idle` connections that stay open.
  ForeignClients(Find find, int idle);
  ~ForeignClients();

  // Waits for this many further rounds. Each round makes one connection of each kind.
  void AwaitRounds(int64_t count) const;
  // The numbers of connections that were accepted, and that were refused because nothing listened.
  int64_t connected() const { return connected_; }
  int64_t refused() const { return refused_; }

 private:
  void Run(const Find& find, int idle);
  std::optional<Socket> Come(const MeetingPlace& place);
  void Round(const MeetingPlace& place);

  std::atomic<bool> stop_{false};
  std::atomic<int64_t> rounds_{0};
  std::atomic<int64_t> connected_{0};
  std::atomic<int64_t> refused_{0};
  std::vector<Socket> idle_;
  std::thread thread_;
};

// Raises this process's limit on open files as far as possible. Returns the number of connections,
// at most `wanted`, of which it can have both ends open.
int AffordableConnections(int wanted);

// Returns the TCP ports at which this process listens.
std::set<int> ListeningPorts();

}  // namespace zeroth::testing
