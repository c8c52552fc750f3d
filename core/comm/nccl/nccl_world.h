// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The state that the NCCL communicators of one rank share: the world of processes, a thread that
// watches NCCL's work, and a thread that frees communicators that are no longer used.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/nccl/copy_engine.h"
#include "zeroth/core/comm/nccl/nccl_handle.h"
#include "zeroth/core/comm/nccl/nccl_memory.h"
#include "zeroth/core/comm/process/process_world.h"
#include "zeroth/core/device/device.h"

namespace zeroth::nccl {

// The calls of one communicator that the device has not finished. Thread-safe.
class CallsInFlight {
 public:
  CallsInFlight(uint32_t group, std::shared_ptr<Handle> handle, bool by_copy_engine)
      : group_(group), by_copy_engine_(by_copy_engine), handle_(std::move(handle)) {}

  Handle& handle() { return *handle_; }
  // Adds `call`, which is the group's call `number` and runs between the two events.
  void Add(const CollectiveCall& call, uint64_t number, std::shared_ptr<Event> begin,
           std::shared_ptr<Event> end);
  // Keeps `memory` until all calls that were added so far are done.
  void Keep(std::shared_ptr<const void> memory);
  // Forgets calls that are done. Returns true if none is left.
  bool IsIdle();
  // Returns a call that all ranks have made, and that the device has been running for longer than
  // `timeout`.
  std::optional<CollectiveCall> FindHungCall(const ProcessWorld& world, absl::Duration timeout);
  // Names a call that the device has not finished, for messages; empty if there is none. Does not
  // ask the device, which might block.
  std::string Unfinished();

 private:
  struct Entry {
    CollectiveCall call;
    uint64_t number = 0;
    std::shared_ptr<Event> begin;
    std::shared_ptr<Event> end;
    std::vector<std::shared_ptr<const void>> kept = {};
  };
  void ForgetDoneLocked();

  const uint32_t group_;
  const bool by_copy_engine_;
  const std::shared_ptr<Handle> handle_;
  std::mutex mutex_;
  std::deque<Entry> entries_;  // oldest first
  // When the oldest call was first seen to run.
  std::optional<std::chrono::steady_clock::time_point> running_since_;
};

// The live objects of one type, which others own. Thread-safe.
template <typename T>
class LiveSet {
 public:
  void Add(const std::shared_ptr<T>& one) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(all_, [](const auto& weak) { return weak.expired(); });
    all_.push_back(one);
  }
  std::vector<std::shared_ptr<T>> Get() {
    std::vector<std::shared_ptr<T>> live;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const std::weak_ptr<T>& weak : all_) {
      if (std::shared_ptr<T> one = weak.lock(); one != nullptr) live.push_back(std::move(one));
    }
    return live;
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<T>> all_;
};

// The handles of a rank, to be aborted together. Thread-safe.
class HandleSet {
 public:
  ~HandleSet();

  // Adds a handle, and aborts it at once if AbortAll has run.
  void Add(const std::shared_ptr<Handle>& handle);
  std::vector<std::shared_ptr<Handle>> Get() { return handles_.Get(); }
  // Stops all work of NCCL on the device, and starts to free the communicators on a separate
  // thread. NCCL cannot free a communicator while another one works, or while a graph exists that
  // has captured it. So all are aborted in one group, which stops them all before it frees the
  // first. AbortAll returns once they are stopped: then the threads that wait for the device learn
  // that the world has broken, and drop their graphs.
  void AbortAll();
  // Waits until all communicators are freed that AbortAll started to free, on any thread.
  void AwaitFreed();
  // Says which aborts are unfinished, for error messages; empty if none is.
  std::string Unfinished() const;

 private:
  void MarkFreed();

  std::mutex mutex_;
  LiveSet<Handle> handles_;
  bool aborted_ = false;
  bool freed_ = false;
  std::condition_variable freed_changed_;
  std::atomic<size_t> freeing_{0};  // communicators that are being freed
  std::thread freer_;               // started by the first AbortAll
};

// When the world breaks, it aborts every communicator, so that no kernel waits for a lost peer.
// When NCCL reports an error, or the device does not finish a call, it breaks the world.
// Thread-safe.
//
// NCCL cannot abort a copy engine that waits for a peer's write. The device, and a host that waits
// for it, then hang until the world's watchdog ends the process
// (LaunchOptions::ends_stuck_process).
class World {
 public:
  World(std::shared_ptr<ProcessWorld> processes, int device, bool library_reduces,
        CopyEnginePlan copy_engines = {});
  // Starts to watch and to free. To be called once, before any handle is made.
  absl::Status Start();
  // Frees all communicators: together with the other ranks, or at once if the world has broken.
  ~World();

  ProcessWorld& processes() const { return *processes_; }
  const std::shared_ptr<ProcessWorld>& shared_processes() const { return processes_; }
  // The CUDA ordinal of the device that all communicators use.
  int device() const { return device_; }
  // True if NCCL computes floating-point sums.
  bool library_reduces() const { return library_reduces_; }
  const CopyEnginePlan& copy_engines() const { return copy_engines_; }
  // The source of memory that can be registered.
  const std::shared_ptr<NcclMemory>& memory() const { return memory_; }
  // Returns a new handle, which the world watches.
  std::shared_ptr<Handle> NewHandle(const std::string& name);
  std::shared_ptr<CallsInFlight> NewCallsInFlight(uint32_t group, std::shared_ptr<Handle> handle,
                                                  bool by_copy_engine);
  // Frees the communicator once its calls are done and no recording refers to it. No calls may be
  // added to `in_flight` afterwards.
  void Retire(std::shared_ptr<CallsInFlight> in_flight);

 private:
  // Runs `work` periodically until the world is destroyed.
  void Repeat(const std::function<void()>& work);
  void Watch();
  void CheckHandles();
  void CheckCallsInFlight();
  // Frees retired communicators that are idle. Returns true if none is left.
  bool FreeRetired();

  const std::shared_ptr<ProcessWorld> processes_;
  const int device_;
  const bool library_reduces_;
  const CopyEnginePlan copy_engines_;
  const std::shared_ptr<NcclMemory> memory_;
  // Shared with the hook that runs when the world breaks.
  const std::shared_ptr<HandleSet> handles_;
  const std::shared_ptr<LiveSet<CallsInFlight>> in_flight_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<CallsInFlight>> retired_;
  bool stop_ = false;
  std::condition_variable stop_changed_;
  std::thread watcher_;
  // Frees retired communicators. The watcher cannot do that: freeing may wait for the device's
  // work, which the watcher must watch meanwhile.
  std::thread freer_;
};

}  // namespace zeroth::nccl
