// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The coordinator of ranks that are processes: a thread in rank 0's process. It compares the calls
// that ranks post (call_ledger.h), splits groups, forwards small values, and tells every rank when
// the world has broken. The data of collectives do not pass through it, and no rank waits for it in
// a call: ranks post their calls and continue.
//
// Anyone may connect to its port until all ranks have joined. A connection has to prove by the
// handshake, within a short time, that it is a rank of this job. Otherwise the coordinator turns it
// away with a line on standard error, and no rank is disturbed. Once all ranks have joined, the
// coordinator stops listening.

#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "zeroth/core/comm/process/handshake.h"
#include "zeroth/core/comm/process/socket.h"

namespace zeroth {

class Coordinator {
 public:
  struct Options {
    int world_size = 1;
    // LaunchOptions::timeout. Also the time within which all ranks have to join.
    absl::Duration timeout = absl::Minutes(10);
    std::string back_end;            // in the names of groups; all ranks must use the same
    std::string host = "127.0.0.1";  // the name or address that ranks connect to
    int port = 0;                    // 0: any
    bool others_elsewhere = false;   // ranks may be on other machines
    JobKey key;                      // what ranks have to know
    // The handshake is a few round trips. A rank whose process was stopped meanwhile tries again.
    absl::Duration handshake_time = absl::Seconds(10);
  };

  // Starts the server. Without a secret, warns on standard error before it accepts connections from
  // other addresses than loopback. AlreadyExists if the port is in use. Raises the process's soft
  // limit on open files if the ranks need it; ResourceExhausted if the hard limit is too low.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(const Options& options);
  // Sends the messages that are left, and stops. The world of ranks that have not returned breaks.
  ~Coordinator();

  // The address at which this process reaches the coordinator.
  const std::string& address() const { return address_; }
  int port() const { return port_; }

 private:
  Coordinator(std::string address, int port, Socket stop) noexcept;

  const std::string address_;
  const int port_;
  const Socket stop_;
  std::thread thread_;
};

}  // namespace zeroth
