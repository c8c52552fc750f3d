// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What the NCCL communicators of one rank share: the world of processes, and threads that watch
// over what the library has been given, and free what is no longer used.

#ifndef ZEROTH_CORE_COMM_NCCL_NCCL_WORLD_H_
#define ZEROTH_CORE_COMM_NCCL_NCCL_WORLD_H_

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

#include "zeroth/core/comm/collective_call.h"
#include "zeroth/core/comm/nccl/copy_engine.h"
#include "zeroth/core/comm/nccl/nccl_handle.h"
#include "zeroth/core/comm/nccl/nccl_memory.h"
#include "zeroth/core/comm/process/process_world.h"
#include "zeroth/core/device/device.h"

namespace zeroth::nccl {

// One communicator's calls that the device has yet to run. Thread-safe.
class Traffic {
 public:
  Traffic(uint32_t group, std::shared_ptr<Handle> handle, bool by_copy_engine)
      : group_(group), by_copy_engine_(by_copy_engine), handle_(std::move(handle)) {}

  Handle& handle() { return *handle_; }
  // `call`, the `number`-th, runs between the events.
  void Add(const CollectiveCall& call, uint64_t number, std::shared_ptr<Event> begin,
           std::shared_ptr<Event> end);
  // Keeps `memory` until all calls that have been added are done.
  void Keep(std::shared_ptr<const void> memory);
  // Forgets what is done; true if nothing is left.
  bool IsIdle();
  // A call that all ranks have made and that the device has been at for longer than `timeout`.
  std::optional<CollectiveCall> FindStuck(const ProcessWorld& world, absl::Duration timeout);
  // What the device has not done, as far as it is known without asking it, which might wait: for
  // messages; empty if nothing.
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
  // Since when the oldest has been seen to run.
  std::optional<std::chrono::steady_clock::time_point> running_since_;
};

// What a rank has of a kind, as long as others keep it. Thread-safe.
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

  // Aborts it at once if the others have been.
  void Add(const std::shared_ptr<Handle>& handle);
  std::vector<std::shared_ptr<Handle>> Get() { return handles_.Get(); }
  // Stops all that the library does on the device, and begins to free the communicators, on a
  // thread of its own. The library cannot free one while another is at work, nor while a graph
  // exists that has captured it: so all of them are aborted in one group, which stops them all
  // before it frees the first; and those who wait for the device, and then let go of their graphs,
  // are told of the broken world in between.
  void AbortAll();
  // Until all that AbortAll, on whatever thread, has begun to free is free.
  void AwaitFreed();
  // See Traffic.
  std::string Unfinished() const;

 private:
  void SetFreed();

  std::mutex mutex_;
  LiveSet<Handle> handles_;
  bool aborted_ = false;
  bool freed_ = false;
  std::condition_variable freed_changed_;
  std::atomic<size_t> freeing_{0};  // communicators
  std::thread freer_;               // of the one AbortAll that has not come too late
};

// What all ranks of the world can do about gathers by copy engines, made a plan; collective.
absl::StatusOr<CopyEnginePlan> AgreeOnCopyEngines(ProcessWorld& processes, const RankAbility& own);

// When the world breaks, every communicator is aborted, so that no kernel waits for a peer that
// will not come; when the library reports an error, or the device does not finish a call, the world
// breaks. Thread-safe.
//
// Copy engines wait for what peers write to memory, and the library has no means of ending that:
// then nothing on the device ever ends, nor any host that waits for it, and the last resort of the
// world of processes is what is left.
class World {
 public:
  World(std::shared_ptr<ProcessWorld> processes, int device, bool library_reduces,
        CopyEnginePlan copy_engines = {});
  // Frees all communicators: in turn with the other ranks if all is well, at once otherwise.
  ~World();

  ProcessWorld& processes() const { return *processes_; }
  const std::shared_ptr<ProcessWorld>& shared_processes() const { return processes_; }
  // CUDA's number of the device that all communicators use.
  int device() const { return device_; }
  // Leave floating-point sums to the library.
  bool library_reduces() const { return library_reduces_; }
  const CopyEnginePlan& copy_engines() const { return copy_engines_; }
  // What is registered with the library comes from here.
  const std::shared_ptr<NcclMemory>& memory() const { return memory_; }
  // A handle that is watched from now on.
  std::shared_ptr<Handle> NewHandle(const std::string& name);
  std::shared_ptr<Traffic> NewTraffic(uint32_t group, std::shared_ptr<Handle> handle,
                                      bool by_copy_engine);
  // Nothing more will be added to it: its communicator goes when it is idle, and no recording has
  // it any more.
  void Retire(std::shared_ptr<Traffic> traffic);

 private:
  // Does `work` from time to time, until the end.
  void Repeat(const std::function<void()>& work);
  void Watch();
  void CheckHandles();
  void CheckTraffic();
  // Frees retired communicators that are idle; true if none is left.
  bool FreeRetired();

  const std::shared_ptr<ProcessWorld> processes_;
  const int device_;
  const bool library_reduces_;
  const CopyEnginePlan copy_engines_;
  const std::shared_ptr<NcclMemory> memory_;
  // Shared with what the world of processes calls when it breaks.
  const std::shared_ptr<HandleSet> handles_;
  const std::shared_ptr<LiveSet<Traffic>> traffic_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Traffic>> retired_;
  bool stop_ = false;
  std::condition_variable stop_changed_;
  std::thread watcher_;
  // Apart, because freeing a communicator may wait for what the device is at, which is watched.
  std::thread burier_;
};

}  // namespace zeroth::nccl

#endif  // ZEROTH_CORE_COMM_NCCL_NCCL_WORLD_H_
