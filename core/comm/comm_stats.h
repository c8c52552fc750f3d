// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What a rank has sent: counts for reports, and an ordered record for tests of structure.

#ifndef ZEROTH_CORE_COMM_COMM_STATS_H_
#define ZEROTH_CORE_COMM_COMM_STATS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace zeroth {

class Timeline;

enum class CollectiveOp : uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kBroadcast,
  kBarrier
};
inline constexpr int kCollectiveOpCount = 6;
// "all_gather", …
absl::string_view CollectiveOpName(CollectiveOp op);

// Bytes that one rank sends in the bandwidth-optimal algorithm, whatever the back end really does:
// all-gather and reduce-scatter (n-1)/n of the full buffer, all-reduce twice that, broadcast the
// buffer, so that back ends and the formulas in the literature can be compared.
int64_t CollectiveBytes(CollectiveOp op, int64_t full_buffer_bytes, int group_size);

// Thread-safe. One per communicator and rank.
class CommStats {
 public:
  struct Counter {
    int64_t calls = 0;
    int64_t bytes = 0;
  };
  struct Entry {
    CollectiveOp op;
    std::string label;
    int64_t bytes;
    uint64_t sequence = 0;  // grows over all communicators and ranks of the process
    absl::Time time;        // when it was issued
  };
  using Counters = std::array<Counter, kCollectiveOpCount>;

  void Add(CollectiveOp op, int64_t bytes, absl::string_view label);
  Counters counters() const;
  Counter operator[](CollectiveOp op) const { return counters()[static_cast<size_t>(op)]; }

  // Off by default: the record grows with every call.
  void EnableRecord(bool on);
  // The calls in the order in which they were issued, since the record was switched on or last
  // taken.
  std::vector<Entry> TakeRecord();

  // The latest kLatest calls, or all if there were fewer, in that order: always kept.
  static constexpr size_t kLatest = 32;
  std::vector<Entry> Latest() const;

  // Where the communicator marks its calls from now on; nullptr: nowhere. Not thread-safe.
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }
  Timeline* timeline() const { return timeline_; }

 private:
  mutable std::mutex mutex_;
  Counters counters_{};
  bool record_on_ = false;
  std::vector<Entry> latest_;  // a ring
  size_t next_ = 0;            // its place for the next call
  std::vector<Entry> record_;
  Timeline* timeline_ = nullptr;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_COMM_STATS_H_
