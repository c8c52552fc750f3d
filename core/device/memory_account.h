// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "zeroth/core/base/check.h"
#include "zeroth/core/device/memory.h"

namespace zeroth {

// The bookkeeping behind Allocator::stats(), which allocators share. Not thread-safe: the
// allocator's lock guards it.
class MemoryAccount {
 public:
  void Allocated(size_t bytes, MemoryCategory category) {
    Charge(static_cast<int64_t>(bytes), category);
    ++stats_.categories[static_cast<size_t>(category)].allocations;
    ++stats_.total.allocations;
  }
  // Aborts if the category does not have that many bytes in use.
  void Freed(size_t bytes, MemoryCategory category) {
    Charge(-static_cast<int64_t>(bytes), category);
  }
  // Adds `bytes` (may be negative) to those in use, without an allocation: for memory that is kept
  // for later work. Aborts as Freed does.
  void Charge(int64_t bytes, MemoryCategory category) {
    for (auto* usage : {&stats_.categories[static_cast<size_t>(category)], &stats_.total}) {
      usage->current_bytes += bytes;
      ZEROTH_CHECK(usage->current_bytes >= 0);
      usage->peak_bytes = std::max(usage->peak_bytes, usage->current_bytes);
    }
  }
  // Counts bytes obtained from (positive) or returned to (negative) the operating system.
  void AddReserved(int64_t bytes) {
    stats_.reserved_bytes += bytes;
    ZEROTH_CHECK(stats_.reserved_bytes >= 0);
  }
  // Sets the peaks to the current values.
  void ResetPeaks() {
    for (MemoryStats::Usage& usage : stats_.categories) usage.peak_bytes = usage.current_bytes;
    stats_.total.peak_bytes = stats_.total.current_bytes;
  }

  const MemoryStats& stats() const { return stats_; }

 private:
  MemoryStats stats_;
};

// An allocator that keeps such an account. Functions that end in Locked need the mutex held.
class AccountingAllocator : public Allocator {
 public:
  MemoryStats stats() const final {
    std::lock_guard<std::mutex> lock(mutex_);
    return account_.stats();
  }
  void ResetPeaks() final {
    std::lock_guard<std::mutex> lock(mutex_);
    account_.ResetPeaks();
  }
  void Trim() final {
    std::lock_guard<std::mutex> lock(mutex_);
    TrimLocked();
  }

 protected:
  virtual void TrimLocked() = 0;

  mutable std::mutex mutex_;
  MemoryAccount account_;
};

}  // namespace zeroth
