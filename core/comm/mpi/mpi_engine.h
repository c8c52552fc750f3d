// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The thread that makes all calls of MPI in this process. That one thread starts MPI as well, so
// the lowest useful thread level, MPI_THREAD_FUNNELED, is enough: every implementation has it, and
// none pays there for the locks of MPI_THREAD_MULTIPLE. Streams hand it messages and sleep while
// it moves them, the messages of all communicators at once; and when ranks are lost it is the one
// place to stop at, after which MPI touches no memory of this process any more.

#ifndef ZEROTH_CORE_COMM_MPI_MPI_ENGINE_H_
#define ZEROTH_CORE_COMM_MPI_MPI_ENGINE_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/mpi/mpi_library.h"

namespace zeroth::mpi {

// Which tag means what among the messages of this project.
// Where rank 0 listens (mpi_address.h).
inline constexpr int kAddressTag = 0;
// Group g of a world has kFirstGroupTag + g (mpi_channel.h).
inline constexpr int kFirstGroupTag = 1;

// Bytes to or from another rank. Does not own.
struct Message {
  enum class Way : uint8_t { kSend, kReceive };
  Way way = Way::kSend;
  int peer = 0;  // a rank of MPI's world
  void* data = nullptr;
  int64_t bytes = 0;
};

// Thread-safe.
class Engine {
 public:
  // What debuggers call its thread.
  static constexpr char kThreadName[] = "zeroth-mpi";

  // Messages that have been handed over together.
  class Exchange;

  // The engine of this process, started when it is first asked for. The library cannot be started
  // twice: an error here stays.
  static absl::StatusOr<Engine*> Get();

  int rank() const { return rank_; }
  int size() const { return size_; }
  int greatest_tag() const { return greatest_tag_; }
  const std::string& description() const { return description_; }

  // Begins to move all `messages`, those without bytes excepted; large ones in pieces. Between two
  // ranks and for one tag, messages match in the order in which they are begun.
  std::shared_ptr<Exchange> Start(int tag, const std::vector<Message>& messages);
  // Waits no longer than `most`; true if all messages have been moved, or cannot be any more.
  bool WaitFor(const Exchange& exchange, std::chrono::milliseconds most);
  // Of an exchange that is over.
  absl::Status StatusOf(const Exchange& exchange) const;

  // No more calls of MPI, for good: what is under way fails, and so does whatever begins later.
  // Returns when the thread touches no message any more, or hangs in the library.
  void Abandon(const absl::Status& reason);
  // The reason, or OK.
  absl::Status status() const;
  // What its thread is at in the library and has not come back from, for messages; empty if it has.
  // Waits for nobody.
  std::string Unfinished() const;
  // Whether the ranks have last parted in order, or are together by other means, so that at the end
  // of a program that succeeds MPI may wait for all of them without limit.
  void SetInOrder(bool in_order);

 private:
  Engine() = default;

  void Run();
  absl::Status StartLibrary();
  // The thread's work until the program ends.
  void Serve();
  void Pause(std::chrono::steady_clock::time_point last_progress) const;
  void FailAllLocked(std::vector<std::shared_ptr<Exchange>>& active);
  // At the program's end.
  void Leave(int exit_code);

  // Kept as plain values: absl::Status counts references in a library that sanitizers cannot look
  // into.
  struct Failure {
    absl::StatusCode code = absl::StatusCode::kUnknown;
    std::string message;
    absl::Status ToStatus() const { return absl::Status(code, message); }
  };

  std::unique_ptr<Library> library_;  // of the thread
  pid_t process_ = 0;
  int rank_ = 0;
  int size_ = 1;
  int greatest_tag_ = 0;
  std::string description_;

  mutable std::mutex mutex_;
  std::condition_variable work_;     // for the thread
  std::condition_variable changed_;  // for those who wait for it
  bool started_ = false;
  std::optional<Failure> failure_;
  std::vector<std::shared_ptr<Exchange>> submitted_;
  std::atomic<bool> in_library_{false};              // the thread may be at messages
  std::atomic<const char*> last_call_{"MPI_Isend"};  // of the library's functions
  bool in_order_ = false;
  bool leaving_ = false;
  bool left_ = false;
};

}  // namespace zeroth::mpi

#endif  // ZEROTH_CORE_COMM_MPI_MPI_ENGINE_H_
