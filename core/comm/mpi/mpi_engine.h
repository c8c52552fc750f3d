// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The thread that makes all MPI calls of this process. It also initializes MPI, so that the thread
// level MPI_THREAD_FUNNELED is enough. Every implementation has that level, and it avoids the locks
// of MPI_THREAD_MULTIPLE. Streams hand messages to the thread and sleep while it moves them; it
// moves those of all communicators at once. When ranks are lost, it is the one place to stop:
// afterwards MPI touches no memory of this process any more.

#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "zeroth/core/comm/mpi/mpi_library.h"
#include "zeroth/core/comm/world_state.h"

namespace zeroth::mpi {

// The tag of the messages that tell rank 0's address (ExchangeAddress in mpi.cc).
inline constexpr int kAddressTag = 0;
// The tag of group 0's messages; those of group g have kFirstGroupTag + g (mpi_channel.h).
inline constexpr int kFirstGroupTag = 1;

// Thread-safe.
class Engine {
 public:
  // The thread's name in debuggers.
  static constexpr char kThreadName[] = "zeroth-mpi";

  // Messages that were started together.
  class Exchange;

  // Returns the engine of this process, and starts it first if necessary. MPI cannot be initialized
  // twice, so an error is final. DeadlineExceeded if MPI has not started within `timeout`, since
  // another rank has not begun or is lost.
  static absl::StatusOr<Engine*> Get(absl::Duration timeout = absl::Minutes(10));

  int rank() const { return library_->rank(); }
  int size() const { return library_->size(); }
  int greatest_tag() const { return library_->greatest_tag(); }
  const std::string& description() const { return library_->description(); }

  // Starts to move all `messages` that are not empty, large ones in pieces. Between two ranks and
  // for one tag, messages match in the order in which they are started.
  std::shared_ptr<Exchange> Start(int tag, const std::vector<Message>& messages);
  // Waits at most `most`. Returns true if the exchange is over: all messages were moved, or failed.
  bool WaitFor(const Exchange& exchange, std::chrono::milliseconds most);
  // Returns the MPI ranks whose messages are not done; empty if the exchange is over, or if the
  // thread hangs in the library.
  std::vector<int> UnfinishedPeers(Exchange& exchange);
  // Returns the result of an exchange that is over.
  absl::Status StatusOf(const Exchange& exchange) const;

  // The bytes of all messages to this rank that were started.
  int64_t BytesSentForTest(int peer) const;

  // Makes no MPI calls any more. Current and later exchanges fail. Returns when the thread touches
  // no message any more, or hangs in the library.
  void Abandon(const absl::Status& reason);
  // The error for which the engine has stopped, or OK.
  absl::Status status() const;
  // Names the MPI call that the thread has not returned from, for messages; empty if there is none.
  // Never blocks.
  std::string Unfinished() const;
  // True while the thread is inside a call of the library. May be called by a signal's handler.
  bool in_library() const { return in_library_; }
  // Says whether the ranks' last run ended without an error, or whether they communicate by other
  // means. Then MPI may wait for all ranks without a limit when a successful program ends.
  void SetInOrder(bool in_order);

 private:
  Engine() = default;

  void Run(absl::Duration timeout);
  // Runs on the thread until the program ends.
  void Serve();
  void FailAllLocked(std::vector<std::shared_ptr<Exchange>>& active);
  // Runs when the program ends.
  void Leave(int exit_code);

  std::unique_ptr<Library> library_;  // the thread alone makes its calls
  pid_t process_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable work_;     // wakes the thread
  std::condition_variable changed_;  // wakes those who wait for the thread
  bool started_ = false;
  std::optional<SharedError> failure_;
  std::vector<std::shared_ptr<Exchange>> submitted_;
  std::map<int, int64_t> bytes_sent_;                // by peer
  std::atomic<bool> in_library_{false};              // the thread may be in an MPI call
  std::atomic<const char*> last_call_{"MPI_Isend"};  // the function that it called last
  bool in_order_ = false;
  bool leaving_ = false;
  bool left_ = false;
};

}  // namespace zeroth::mpi
