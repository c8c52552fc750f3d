// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Statistics of a rank's communication: counts for reports, and an ordered record of calls for
// tests.

#pragma once

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

// Returns the bytes that one rank sends in the bandwidth-optimal algorithm, whatever the back end
// really does: (n-1)/n of the full buffer for all-gather, reduce-scatter and all-to-all, twice that
// for all-reduce, and the buffer for broadcast. So back ends compare with formulas in the
// literature.
int64_t CollectiveBytes(CollectiveOp op, int64_t full_buffer_bytes, int group_size);

// One object per communicator and rank. Thread-safe.
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
    uint64_t sequence = 0;  // increases over all communicators and ranks of the process
    absl::Time time;        // when the call was issued
  };
  using Counters = std::array<Counter, kCollectiveOpCount>;

  void Add(CollectiveOp op, int64_t bytes, absl::string_view label);
  Counters counters() const;
  Counter operator[](CollectiveOp op) const { return counters()[static_cast<size_t>(op)]; }

  // Off by default, because the record grows with every call.
  void EnableRecord(bool on);
  // Returns the calls since the record was switched on or last taken, in the order of issue.
  std::vector<Entry> TakeRecord();

  // Returns the latest kLatest calls, or all if there were fewer, in the order of issue. Always
  // kept.
  static constexpr size_t kLatest = 32;
  std::vector<Entry> Latest() const;

  // The timeline in which the communicator marks its calls from now on; nullptr: none. Not
  // thread-safe.
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }
  Timeline* timeline() const { return timeline_; }

 private:
  mutable std::mutex mutex_;
  Counters counters_{};
  bool record_on_ = false;
  std::vector<Entry> latest_;  // a ring buffer
  size_t next_ = 0;            // the ring's place for the next call
  std::vector<Entry> record_;
  Timeline* timeline_ = nullptr;
};

}  // namespace zeroth
