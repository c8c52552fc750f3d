// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/nccl_world.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/thread.h"
#include "zeroth/core/comm/process/hang_watchdog.h"

namespace zeroth::nccl {
namespace {

using Clock = std::chrono::steady_clock;

// The delay until an error is noticed. One poll costs a few microseconds.
constexpr auto kWatchPeriod = std::chrono::milliseconds(20);
constexpr auto kFreePause = std::chrono::milliseconds(1);

}  // namespace

void CallsInFlight::Add(const CollectiveCall& call, uint64_t number, std::shared_ptr<Event> begin,
                        std::shared_ptr<Event> end) {
  std::lock_guard<std::mutex> lock(mutex_);
  ForgetDoneLocked();
  entries_.push_back({call, number, std::move(begin), std::move(end)});
}

void CallsInFlight::Keep(std::shared_ptr<const void> memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!entries_.empty()) entries_.back().kept.push_back(std::move(memory));
}

void CallsInFlight::ForgetDoneLocked() {
  while (!entries_.empty() && entries_.front().end->IsDone()) {
    entries_.pop_front();
    running_since_.reset();
  }
}

bool CallsInFlight::IsIdle() {
  std::lock_guard<std::mutex> lock(mutex_);
  ForgetDoneLocked();
  return entries_.empty();
}

std::optional<CollectiveCall> CallsInFlight::FindHungCall(const ProcessWorld& world,
                                                          absl::Duration timeout) {
  std::lock_guard<std::mutex> lock(mutex_);
  ForgetDoneLocked();
  // While ranks are missing, the coordinator enforces the timeout and names them.
  if (entries_.empty() || !entries_.front().begin->IsDone() ||
      world.Agreed(group_) < entries_.front().number) {
    return std::nullopt;
  }
  const Clock::time_point now = Clock::now();
  if (!running_since_.has_value()) running_since_ = now;
  if (absl::FromChrono(now - *running_since_) <= timeout) return std::nullopt;
  return entries_.front().call;
}

std::string CallsInFlight::Unfinished() {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || entries_.empty()) return "";
  return absl::StrCat(entries_.front().call.ToString(), " on ", handle_->name(),
                      by_copy_engine_ ? ", by copy engines, which NCCL cannot abort" : "");
}

HandleSet::~HandleSet() {
  if (freer_.joinable()) freer_.join();
}

void HandleSet::Add(const std::shared_ptr<Handle>& handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  handles_.Add(handle);
  if (aborted_) handle->Abort();
}

void HandleSet::AbortAll() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(aborted_, true)) return;
  }
  struct Aborted {
    // NCCL may write to memory of the handles until their communicators are freed.
    std::vector<std::shared_ptr<Handle>> handles;
    std::vector<ncclComm_t> communicators;
    std::promise<void> stopped;
  };
  const auto aborted = std::make_shared<Aborted>();
  aborted->handles = Get();
  for (const std::shared_ptr<Handle>& handle : aborted->handles) {
    const ncclComm_t communicator = handle->Release();
    if (communicator != nullptr) aborted->communicators.push_back(communicator);
  }
  if (aborted->communicators.empty()) {
    MarkFreed();
    return;
  }
  freeing_ = aborted->communicators.size();
  const auto abort = [this, aborted] {
    // Errors are ignored: nothing more can be done.
    static_cast<void>(ncclGroupStart());
    for (ncclComm_t communicator : aborted->communicators) {
      static_cast<void>(ncclCommAbort(communicator));
    }
    aborted->stopped.set_value();
    static_cast<void>(ncclGroupEnd());
    freeing_ = 0;
    aborted->handles.clear();
    MarkFreed();
  };
  // One thread has to make the whole group, and ncclGroupEnd blocks.
  absl::StatusOr<std::thread> freer = StartThread("the abort of NCCL's communicators", abort);
  if (freer.ok()) {
    freer_ = *std::move(freer);
  } else {
    abort();
  }
  aborted->stopped.get_future().wait();
}

void HandleSet::MarkFreed() {
  std::lock_guard<std::mutex> lock(mutex_);
  freed_ = true;
  freed_changed_.notify_all();
}

void HandleSet::AwaitFreed() {
  std::unique_lock<std::mutex> lock(mutex_);
  freed_changed_.wait(lock, [this] { return !aborted_ || freed_; });
}

std::string HandleSet::Unfinished() const {
  const size_t left = freeing_;
  return left == 0 ? "" : absl::StrCat("ncclCommAbort of ", left, " communicators");
}

World::World(std::shared_ptr<ProcessWorld> processes, int device, bool library_reduces,
             CopyEnginePlan copy_engines)
    : processes_(std::move(processes)),
      device_(device),
      library_reduces_(library_reduces),
      copy_engines_(std::move(copy_engines)),
      memory_(std::make_shared<NcclMemory>(device)),
      handles_(std::make_shared<HandleSet>()),
      in_flight_(std::make_shared<LiveSet<CallsInFlight>>()) {
  processes_->OnBreak([handles = handles_, memory = memory_] {
    memory->Hold();
    handles->AbortAll();
  });
  processes_->NameUnfinished([handles = handles_, in_flight = in_flight_] {
    std::vector<std::string> names;
    for (const auto& one : in_flight->Get()) names.push_back(one->Unfinished());
    names.push_back(handles->Unfinished());
    names.erase(std::remove(names.begin(), names.end(), ""), names.end());
    return absl::StrJoin(names, "; ");
  });
}

absl::Status World::Start() {
  ZEROTH_ASSIGN_OR_RETURN(watcher_,
                          StartThread("watching NCCL", [this] { Repeat([this] { Watch(); }); }));
  ZEROTH_ASSIGN_OR_RETURN(freer_, StartThread("freeing NCCL's communicators", [this] {
                            Repeat([this] {
                              if (processes_->StatusBeforeHooks().ok())
                                static_cast<void>(FreeRetired());
                            });
                          }));
  return absl::OkStatus();
}

World::~World() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    stop_changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
  if (freer_.joinable()) freer_.join();
  for (const std::shared_ptr<Handle>& handle : handles_->Get()) handle->ForgetWindows();
  const Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(absl::ToChronoNanoseconds(
                         std::min(processes_->timeout(), absl::Hours(24))));
  while (processes_->status().ok() && Clock::now() < deadline && !FreeRetired()) {
    std::this_thread::sleep_for(kFreePause);
  }
  // A broken world of processes has a watchdog already.
  std::optional<HangWatchdog> hang_watchdog;
  if (processes_->StatusBeforeHooks().ok()) {
    hang_watchdog.emplace(
        processes_->ends_stuck_process(), [handles = handles_, failed = processes_->Failed()] {
          return absl::StrCat(failed,
                              ": its NCCL communicators cannot be freed: ", handles->Unfinished());
        });
  }
  handles_->AbortAll();
  handles_->AwaitFreed();
  memory_->Release();
}

std::shared_ptr<Handle> World::NewHandle(const std::string& name) {
  auto handle = std::make_shared<Handle>(name, processes_->timeout());
  handles_->Add(handle);
  return handle;
}

std::shared_ptr<CallsInFlight> World::NewCallsInFlight(uint32_t group,
                                                       std::shared_ptr<Handle> handle,
                                                       bool by_copy_engine) {
  auto in_flight = std::make_shared<CallsInFlight>(group, std::move(handle), by_copy_engine);
  in_flight_->Add(in_flight);
  return in_flight;
}

void World::Retire(std::shared_ptr<CallsInFlight> in_flight) {
  std::lock_guard<std::mutex> lock(mutex_);
  retired_.push_back(std::move(in_flight));
}

void World::Repeat(const std::function<void()>& work) {
  // These threads query events and free communicators, which needs the current device.
  static_cast<void>(cudaSetDevice(device_));
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    lock.unlock();
    work();
    lock.lock();
    if (!stop_) stop_changed_.wait_for(lock, kWatchPeriod);
  }
}

void World::Watch() {
  if (processes_->StatusBeforeHooks().ok()) {
    CheckHandles();
    CheckCallsInFlight();
    return;
  }
  // Forgets calls that are done, so that Unfinished does not name them.
  for (const std::shared_ptr<CallsInFlight>& in_flight : in_flight_->Get()) {
    static_cast<void>(in_flight->IsIdle());
  }
}

void World::CheckHandles() {
  for (const std::shared_ptr<Handle>& handle : handles_->Get()) {
    const absl::Status error = handle->AsyncError();
    if (!error.ok()) processes_->Break(Annotate(error, processes_->Failed()));
  }
}

void World::CheckCallsInFlight() {
  for (const std::shared_ptr<CallsInFlight>& in_flight : in_flight_->Get()) {
    const auto stuck = in_flight->FindHungCall(*processes_, processes_->timeout());
    if (!stuck.has_value()) continue;
    processes_->Break(absl::DeadlineExceededError(absl::StrCat(
        processes_->Failed(), ": timeout after ", absl::FormatDuration(processes_->timeout()),
        " in ", stuck->ToString(), " on ", in_flight->handle().name(),
        ": all ranks have called it, and the device does not finish it; see whether the network or "
        "another rank's device has failed (NCCL_DEBUG=INFO)")));
  }
}

bool World::FreeRetired() {
  std::vector<std::shared_ptr<CallsInFlight>> retired;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    retired = std::exchange(retired_, {});
  }
  // Tries all, in no fixed order: ranks free a communicator together, and may retire them in
  // different orders.
  std::vector<std::shared_ptr<CallsInFlight>> left;
  for (std::shared_ptr<CallsInFlight>& in_flight : retired) {
    // Recordings share it. NCCL would wait until their graphs are destroyed.
    const bool recorded = in_flight.use_count() > 1;
    if (recorded || !in_flight->IsIdle() || !in_flight->handle().TryDestroy()) {
      left.push_back(std::move(in_flight));
    }
  }
  const bool done = left.empty();
  std::lock_guard<std::mutex> lock(mutex_);
  for (std::shared_ptr<CallsInFlight>& in_flight : left) retired_.push_back(std::move(in_flight));
  return done;
}

}  // namespace zeroth::nccl
