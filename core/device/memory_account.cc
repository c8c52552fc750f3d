// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/memory_account.h"

#include <algorithm>

#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

void Change(int64_t bytes, MemoryStats::Usage& usage) {
  usage.current_bytes += bytes;
  ZEROTH_CHECK(usage.current_bytes >= 0);
  usage.peak_bytes = std::max(usage.peak_bytes, usage.current_bytes);
}

}  // namespace

void MemoryAccount::Allocated(size_t bytes, MemoryCategory category) {
  Charge(static_cast<int64_t>(bytes), category);
  ++stats_.categories[static_cast<size_t>(category)].allocations;
  ++stats_.total.allocations;
}

void MemoryAccount::Freed(size_t bytes, MemoryCategory category) {
  Charge(-static_cast<int64_t>(bytes), category);
}

void MemoryAccount::Charge(int64_t bytes, MemoryCategory category) {
  Change(bytes, stats_.categories[static_cast<size_t>(category)]);
  Change(bytes, stats_.total);
}

void MemoryAccount::AddReserved(int64_t bytes) {
  stats_.reserved_bytes += bytes;
  ZEROTH_CHECK(stats_.reserved_bytes >= 0);
}

void MemoryAccount::ResetPeaks() {
  for (MemoryStats::Usage& usage : stats_.categories) usage.peak_bytes = usage.current_bytes;
  stats_.total.peak_bytes = stats_.total.current_bytes;
}

MemoryStats AccountingAllocator::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return account_.stats();
}

void AccountingAllocator::ResetPeaks() {
  std::lock_guard<std::mutex> lock(mutex_);
  account_.ResetPeaks();
}

void AccountingAllocator::Trim() {
  std::lock_guard<std::mutex> lock(mutex_);
  TrimLocked();
}

}  // namespace zeroth
