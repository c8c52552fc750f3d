// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/memory_account.h"

#include <algorithm>

#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

void Add(int64_t bytes, MemoryStats::Usage& usage) {
  usage.current_bytes += bytes;
  usage.peak_bytes = std::max(usage.peak_bytes, usage.current_bytes);
  ++usage.allocations;
}

void Subtract(int64_t bytes, MemoryStats::Usage& usage) {
  ZEROTH_CHECK(usage.current_bytes >= bytes);
  usage.current_bytes -= bytes;
}

}  // namespace

void MemoryAccount::Allocated(size_t bytes, MemoryCategory category) {
  Add(static_cast<int64_t>(bytes), stats_.categories[static_cast<size_t>(category)]);
  Add(static_cast<int64_t>(bytes), stats_.total);
}

void MemoryAccount::Freed(size_t bytes, MemoryCategory category) {
  Subtract(static_cast<int64_t>(bytes), stats_.categories[static_cast<size_t>(category)]);
  Subtract(static_cast<int64_t>(bytes), stats_.total);
}

void MemoryAccount::AddReserved(int64_t bytes) {
  stats_.reserved_bytes += bytes;
  ZEROTH_CHECK(stats_.reserved_bytes >= 0);
}

void MemoryAccount::ResetPeaks() {
  for (MemoryStats::Usage& usage : stats_.categories) usage.peak_bytes = usage.current_bytes;
  stats_.total.peak_bytes = stats_.total.current_bytes;
}

}  // namespace zeroth
