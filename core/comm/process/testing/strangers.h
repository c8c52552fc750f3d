// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Whoever else may come to the port at which ranks meet, for tests: they must harm nobody.

#ifndef ZEROTH_CORE_COMM_PROCESS_TESTING_STRANGERS_H_
#define ZEROTH_CORE_COMM_PROCESS_TESTING_STRANGERS_H_

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

// A crowd that never stops: random bytes, requests of other protocols, silence, messages that only
// ranks may send, greetings of another job, and of one that knows this job's id and not its secret.
// Most go away again; some connections stay, silent.
class Strangers {
 public:
  // None as long as nobody listens.
  using Find = std::function<std::optional<MeetingPlace>()>;

  // They come to what `find` has found, from when it does until the end, and keep `idle`
  // connections open, which are all there after the first round.
  Strangers(Find find, int idle);
  ~Strangers();

  // Waits until this many rounds have been made from now on: of each kind one in each.
  void AwaitRounds(int64_t count) const;
  // How many have been let in to say something, and how many found nobody listening.
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

// As many as both ends of which, `wanted` at most, this process may have open, once its limit is
// raised as far as it goes.
int AffordableConnections(int wanted);

// The TCP ports at which this process listens.
std::set<int> ListeningPorts();

}  // namespace zeroth::testing

#endif  // ZEROTH_CORE_COMM_PROCESS_TESTING_STRANGERS_H_
