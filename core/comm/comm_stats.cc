// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/comm_stats.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

#include "absl/time/clock.h"

#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

std::atomic<uint64_t> next_sequence{0};

}  // namespace

absl::string_view CollectiveOpName(CollectiveOp op) {
  static constexpr std::array<const char*, kCollectiveOpCount> kNames = {
      "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "barrier"};
  return kNames.at(static_cast<size_t>(op));
}

int64_t CollectiveBytes(CollectiveOp op, int64_t full_buffer_bytes, int group_size) {
  ZEROTH_CHECK(full_buffer_bytes >= 0 && group_size >= 1);
  if (group_size == 1) return 0;
  // Dividing first avoids an overflow of int64 for every buffer that can exist.
  const int64_t whole = full_buffer_bytes / group_size;
  const int64_t rest = full_buffer_bytes % group_size;
  const int64_t others = group_size - 1;
  switch (op) {
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      return whole * others + rest * others / group_size;
    case CollectiveOp::kAllReduce:
      return 2 * whole * others + 2 * rest * others / group_size;
    case CollectiveOp::kBroadcast:
      return full_buffer_bytes;
    case CollectiveOp::kBarrier:
      return 0;
  }
  return 0;
}

void CommStats::Add(CollectiveOp op, int64_t bytes, absl::string_view label) {
  std::lock_guard<std::mutex> lock(mutex_);
  Counter& counter = counters_[static_cast<size_t>(op)];
  ++counter.calls;
  counter.bytes += bytes;
  if (latest_.size() < kLatest) latest_.emplace_back();
  Entry& entry = latest_[next_];
  next_ = (next_ + 1) % kLatest;
  entry.op = op;
  entry.label.assign(label.data(), label.size());  // reuses the memory of the old label
  entry.bytes = bytes;
  entry.sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  entry.time = absl::Now();
  if (record_on_) record_.push_back(entry);
}

std::vector<CommStats::Entry> CommStats::Latest() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Entry> latest = latest_;
  std::rotate(latest.begin(),
              latest.begin() + static_cast<std::ptrdiff_t>(latest.size() < kLatest ? 0 : next_),
              latest.end());
  return latest;
}

CommStats::Counters CommStats::counters() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

void CommStats::EnableRecord(bool on) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (on && !record_on_) record_.clear();
  record_on_ = on;
}

std::vector<CommStats::Entry> CommStats::TakeRecord() {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(record_, {});
}

}  // namespace zeroth
