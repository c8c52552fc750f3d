// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Where ranks that are processes meet: a thread in rank 0's process that keeps the account of all
// calls (call_ledger.h), splits groups, holds small values for all to read (a store, as TCPStore is
// to PyTorch), and tells every rank when the world has broken. No data of collectives pass through
// it, and no rank waits for it in a call: ranks post what they call and go on.
//
// Anybody may come to its port before all ranks are there. Who does not show by the handshake, soon
// after having come, that it is a rank of this job is turned away with a line on standard error,
// and no rank is disturbed. When all ranks are there, nobody listens any more.

#ifndef ZEROTH_CORE_COMM_PROCESS_COORDINATOR_H_
#define ZEROTH_CORE_COMM_PROCESS_COORDINATOR_H_

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
    // As LaunchOptions::timeout; also for all ranks to come.
    absl::Duration timeout = absl::Minutes(10);
    std::string back_end;            // in the names of groups; all ranks must use the same
    std::string host = "127.0.0.1";  // the name or address by which ranks come
    int port = 0;                    // 0: any
    bool others_elsewhere = false;   // ranks may be on other machines
    JobKey key;                      // by which ranks are known
    // A rank has shown who it is within a few round trips; one whose process was stopped meanwhile
    // comes again.
    absl::Duration handshake_time = absl::Seconds(10);
  };

  // Listens, and begins to serve. AlreadyExists if the port is taken.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(const Options& options);
  // Sends what is still to be sent, and ends. Ranks that have not returned lose their world.
  ~Coordinator();

  // Where this process reaches it.
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

#endif  // ZEROTH_CORE_COMM_PROCESS_COORDINATOR_H_
