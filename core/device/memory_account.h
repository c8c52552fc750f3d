// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_DEVICE_MEMORY_ACCOUNT_H_
#define ZEROTH_CORE_DEVICE_MEMORY_ACCOUNT_H_

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "zeroth/core/device/memory.h"

namespace zeroth {

// The bookkeeping behind Allocator::stats(), which allocators share. Not thread-safe: the
// allocator's lock guards it.
class MemoryAccount {
 public:
  void Allocated(size_t bytes, MemoryCategory category);
  // Aborts if the category does not have that many bytes in use.
  void Freed(size_t bytes, MemoryCategory category);
  // Counts `bytes` more (negative: fewer) as in use, without an allocation: for memory that is kept
  // for later work. Aborts as Freed does.
  void Charge(int64_t bytes, MemoryCategory category);
  // Counts bytes taken from (positive) or returned to (negative) the operating system.
  void AddReserved(int64_t bytes);
  // Sets the peaks to the current values.
  void ResetPeaks();

  const MemoryStats& stats() const { return stats_; }

 private:
  MemoryStats stats_;
};

// An allocator that keeps such an account. Functions that end in Locked need the mutex held.
class AccountingAllocator : public Allocator {
 public:
  MemoryStats stats() const final;
  void ResetPeaks() final;
  void Trim() final;

 protected:
  virtual void TrimLocked() = 0;

  mutable std::mutex mutex_;
  MemoryAccount account_;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_DEVICE_MEMORY_ACCOUNT_H_
