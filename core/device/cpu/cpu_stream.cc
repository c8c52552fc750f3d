// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cpu/cpu_stream.h"

#include <omp.h>
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

class CpuEvent final : public Event {
 public:
  bool IsDone() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return done_;
  }

  absl::Status Synchronize() const override {
    std::unique_lock<std::mutex> lock(mutex_);
    done_changed_.wait(lock, [this] { return done_; });
    return status_;
  }

  // Works for every event of this device, because reading the clock costs next to nothing.
  absl::StatusOr<double> Seconds() const override {
    if (absl::Status status = Synchronize(); !status.ok()) return status;
    return std::chrono::duration<double>(done_at_.time_since_epoch()).count();
  }

  void Finish(absl::Status status) {
    std::lock_guard<std::mutex> lock(mutex_);
    done_at_ = std::chrono::steady_clock::now();
    status_ = std::move(status);
    done_ = true;
    done_changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable done_changed_;
  bool done_ = false;
  std::chrono::steady_clock::time_point done_at_;
  absl::Status status_;
};

// While this exists, signal handlers do not run on the calling thread. They never run on threads
// that it starts meanwhile, such as those of a parallel region. The single-precision GEMM of oneDNN
// 2.6 keeps data below its stack pointer, and farther down than the 128 bytes that the ABI
// protects. There the kernel builds the frame of a handler, and the result and the heap are
// corrupted.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    // An error of the thread itself must reach its handler, or a debugger's.
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
      sigdelset(&blocked, signal);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

// Catches exceptions: on a worker thread they would end the process, without naming the stream.
absl::Status RunGuarded(const CpuStream::Work& work, absl::string_view stream_name) {
  const BlockedSignals blocked;
  try {
    return work();
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat("work on stream '", stream_name, "' threw an exception: ", error.what()));
  }
}

// The common base of both kinds of streams.
class NamedCpuStream : public CpuStream {
 public:
  NamedCpuStream(Device& device, absl::string_view name) : device_(device), name_(name) {}

  Device& device() const final { return device_; }
  absl::string_view name() const final { return name_; }
  absl::StatusOr<std::shared_ptr<Event>> RecordTime() final { return Record(); }
  absl::Status status() const final {
    std::lock_guard<std::mutex> lock(error_mutex_);
    return error_;
  }

 protected:
  // Keeps the first error and ignores later ones.
  void Update(const absl::Status& status) {
    std::lock_guard<std::mutex> lock(error_mutex_);
    error_.Update(status);
  }

 private:
  Device& device_;
  const std::string name_;
  mutable std::mutex error_mutex_;
  absl::Status error_;
};

class InlineCpuStream final : public NamedCpuStream {
 public:
  using NamedCpuStream::NamedCpuStream;

  absl::Status Enqueue(Work work) override {
    std::lock_guard<std::recursive_mutex> lock(running_);
    if (absl::Status failed = status(); !failed.ok()) return failed;
    absl::Status status = RunGuarded(work, name());
    Update(status);
    return status;
  }

  absl::StatusOr<std::shared_ptr<Event>> Record() override {
    if (absl::Status failed = Synchronize(); !failed.ok()) return failed;
    auto event = std::make_shared<CpuEvent>();
    event->Finish(absl::OkStatus());
    return event;
  }

  absl::Status Wait(const std::shared_ptr<Event>& event) override {
    if (absl::Status failed = status(); !failed.ok()) return failed;
    Update(event->Synchronize());
    return status();
  }

  absl::Status Synchronize() override {
    std::lock_guard<std::recursive_mutex> lock(running_);
    return status();
  }

 private:
  // Held while work runs, so that a second issuing thread waits. Recursive, because work may
  // enqueue more work.
  std::recursive_mutex running_;
};

class WorkerCpuStream final : public NamedCpuStream {
 public:
  WorkerCpuStream(Device& device, absl::string_view name, int threads)
      : NamedCpuStream(device, name), thread_([this, threads] { Run(threads); }) {}

  ~WorkerCpuStream() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    queue_changed_.notify_one();
    thread_.join();
  }

  absl::Status Enqueue(Work work) override {
    if (absl::Status failed = status(); !failed.ok()) return failed;
    Push({.work = std::move(work)});
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<Event>> Record() override {
    if (absl::Status failed = status(); !failed.ok()) return failed;
    return PushEvent();
  }

  absl::Status Wait(const std::shared_ptr<Event>& event) override {
    if (absl::Status failed = status(); !failed.ok()) return failed;
    Push({.wait_for = event});
    return absl::OkStatus();
  }

  absl::Status Synchronize() override {
    ZEROTH_CHECK(std::this_thread::get_id() != thread_.get_id());
    // Waits even after an error: the caller may free memory that the failing work still reads.
    return PushEvent()->Synchronize();
  }

 private:
  // Exactly one of the three is set.
  struct Item {
    Work work = nullptr;
    std::shared_ptr<Event> wait_for = nullptr;
    std::shared_ptr<CpuEvent> event = nullptr;  // to finish
  };

  void Push(Item item) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      queue_.push_back(std::move(item));
    }
    queue_changed_.notify_one();
  }

  std::shared_ptr<CpuEvent> PushEvent() {
    auto event = std::make_shared<CpuEvent>();
    Push({.event = event});
    return event;
  }

  // The next item, or false when the stream ends.
  bool Pop(Item& item) {
    std::unique_lock<std::mutex> lock(mutex_);
    queue_changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return false;
    item = std::move(queue_.front());
    queue_.pop_front();
    return true;
  }

  void Run(int threads) {
    // The kernel's limit on thread names is 15 characters.
    pthread_setname_np(pthread_self(), std::string(name().substr(0, 15)).c_str());
    omp_set_num_threads(threads);
    Item item;
    while (Pop(item)) {
      if (item.event != nullptr) {
        item.event->Finish(status());
      } else if (item.wait_for != nullptr) {
        // Waits even after an error: a later event of this stream promises that the awaited work
        // has ended.
        Update(item.wait_for->Synchronize());
      } else if (status().ok()) {
        Update(RunGuarded(item.work, name()));
      }
      item = {};  // releases what the work holds before the next item
    }
  }

  std::mutex mutex_;
  std::condition_variable queue_changed_;
  std::deque<Item> queue_;
  bool stopping_ = false;
  std::thread thread_;  // last, so that it starts when everything above exists
};

}  // namespace

CpuStream& CpuStream::From(Stream& stream) {
  auto* const cpu_stream = dynamic_cast<CpuStream*>(&stream);
  ZEROTH_CHECK(cpu_stream != nullptr);
  return *cpu_stream;
}

std::unique_ptr<CpuStream> NewInlineCpuStream(Device& device, absl::string_view name) {
  return std::make_unique<InlineCpuStream>(device, name);
}

std::unique_ptr<CpuStream> NewWorkerCpuStream(Device& device, absl::string_view name, int threads) {
  return std::make_unique<WorkerCpuStream>(device, name, threads);
}

}  // namespace zeroth
