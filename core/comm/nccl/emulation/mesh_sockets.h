// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Local sockets between all pairs of ranks of an emulated communicator, and transfers over them.

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

// Starts a thread at which the ranks of one communicator meet, in the process that made the id.
// Returns the name of its local socket.
absl::StatusOr<int> ServeMeeting();

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
  // Meets the other ranks at the socket `meeting_name`. Returns early if `aborted` returns true.
  static absl::StatusOr<std::shared_ptr<MeshSockets>> Connect(int meeting_name, int ranks, int rank,
                                                              const AbortTest& aborted);

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
