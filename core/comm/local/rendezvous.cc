// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/local/rendezvous.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/time/time.h"

#include "zeroth/core/base/processor.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// About as long as it takes to put a thread to sleep and to wake it up. Longer polling gains
// nothing.
constexpr int kSpinRounds = 400;

}  // namespace

Rendezvous::Rendezvous(std::shared_ptr<WorldState> world, std::vector<int> world_ranks,
                       std::string name)
    : CallLedger(std::move(world), std::move(world_ranks), std::move(name)),
      may_spin_(std::thread::hardware_concurrency() >=
                static_cast<unsigned>(CallLedger::world().size())),
      buffers_(static_cast<size_t>(size())) {}

absl::StatusOr<uint64_t> Rendezvous::Issue(int rank) {
  std::lock_guard<std::mutex> lock(world().mutex());
  return IssueLocked(rank);
}

absl::Status Rendezvous::Arrive(int rank, const CollectiveCall& call, const LocalBuffers& buffers,
                                const std::function<void()>& when_complete) {
  std::unique_lock<std::mutex> lock(world().mutex());
  ZEROTH_RETURN_IF_ERROR(ArriveLocked(rank, call));
  buffers_[static_cast<size_t>(rank)] = buffers;
  const uint64_t target = ArrivedLocked(rank);
  if (completed() >= target) {
    if (when_complete != nullptr) when_complete();
    arrived_.store(target, std::memory_order_release);
    changed().notify_all();
    return absl::OkStatus();
  }

  lock.unlock();
  SpinUntil(arrived_, target);
  lock.lock();
  const auto complete = [&] { return arrived_ >= target; };
  const bool in_time = changed().wait_for(lock, OnClock(world().timeout()),
                                          [&] { return complete() || world().IsBrokenLocked(); });
  if (complete()) return absl::OkStatus();
  if (!in_time) TimeOutLocked(rank);
  return world().StatusLocked();
}

void Rendezvous::Finish(int rank, bool wait_for_all) {
  std::unique_lock<std::mutex> lock(world().mutex());
  const uint64_t target = ArrivedLocked(rank);
  if (++finishing_ == size()) {
    finishing_ = 0;
    finished_.store(target, std::memory_order_release);
    changed().notify_all();
    return;
  }
  if (!wait_for_all) return;
  lock.unlock();
  SpinUntil(finished_, target);
  if (finished_.load(std::memory_order_acquire) >= target) return;
  lock.lock();
  changed().wait(lock, [&] { return finished_ >= target; });
}

void Rendezvous::Leave(int rank) {
  std::lock_guard<std::mutex> lock(world().mutex());
  LeaveLocked(rank);
}

void Rendezvous::SpinUntil(const std::atomic<uint64_t>& counter, uint64_t target) const {
  if (!may_spin_) return;
  for (int round = 0; round < kSpinRounds; ++round) {
    if (counter.load(std::memory_order_acquire) >= target) return;
    PauseProcessor();
  }
}

}  // namespace zeroth
