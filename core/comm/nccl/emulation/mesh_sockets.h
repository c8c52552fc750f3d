// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Sockets between all pairs of ranks of an emulated communicator, and transfers over them. They are
// local sockets, or TCP over the interface that NCCL_SOCKET_IFNAME names, as in the library: so
// tests can put ranks in network namespaces. The name must be a whole one.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/process/socket.h"

namespace zeroth::nccl::emulation {

// Where a socket listens: an IPv4 address in the upper half and a port in the lower, both in
// network order; or the number of a local socket.
using SocketPlace = uint64_t;

// Starts a thread at which the ranks of one communicator meet, in the process that made the id.
// Returns the place of its socket.
absl::StatusOr<SocketPlace> ServeMeeting();

using AbortTest = std::function<bool()>;

struct Transfer {
  bool is_send = false;
  int peer = 0;
  char* data = nullptr;
  size_t bytes = 0;
};

// The connections of one rank. Transfers run in the order of their numbers. Thread-safe.
class MeshSockets {
 public:
  // Meets the other ranks at `meeting_place`. Returns early if `aborted` returns true.
  static absl::StatusOr<std::shared_ptr<MeshSockets>> Connect(SocketPlace meeting_place, int ranks,
                                                              int rank, const AbortTest& aborted);

  // Returns the number of the next transfers.
  uint64_t TakeNumber();
  // Waits until all earlier numbers are done, then does all transfers at once. Transfers with one
  // peer keep their order in each direction. Each number must be run.
  absl::Status Run(uint64_t number, const std::vector<Transfer>& transfers);
  // True if all numbers that were returned are done.
  bool IsIdle();
  // Ends all current and later transfers.
  void Abort();

 private:
  absl::Status Move(const std::vector<Transfer>& transfers);

  std::vector<Socket> sockets_;  // by rank; none for the rank itself
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t taken_ = 0;
  uint64_t done_ = 0;
  bool failed_ = false;
};

// See emulated_nccl.h.
extern std::atomic<bool> stall_transfers;
extern std::atomic<bool> fail_next_transfer;

}  // namespace zeroth::nccl::emulation
