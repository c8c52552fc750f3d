// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_DEVICE_PLANNED_WORK_LEDGER_H_
#define ZEROTH_CORE_DEVICE_PLANNED_WORK_LEDGER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace zeroth {

// What work occupies. Two pieces of work on one resource at a time take twice as long.
enum class Resource : uint8_t { kNone, kCompute, kLink, kNetwork, kHost };
inline constexpr int kResourceCount = 5;

// A piece of work of a stream.
struct PlannedWork {
  std::string label;  // "a product", "all_gather of h.3"
  Resource resource = Resource::kNone;
  double seconds = 0;           // with the resource to itself, on top of `latency`
  double latency = 0;           // passes whoever else is there
  const char* collective = "";  // "all_gather", …: what it is if it is one
  int64_t bytes = 0;            // that a collective sends
};

// Who works when, from the order in which work was enqueued: streams run in order, events order
// them, and work that is on one resource at a time shares it. Not thread-safe.
class WorkLedger {
 public:
  static constexpr int kNothing = -1;  // an index of work that has been done already

  struct Entry {
    PlannedWork work;
    int stream = 0;
    int after = kNothing;  // may not begin before that entry has ended
    double begin = 0;      // known after Run
    double end = 0;
  };

  int AddStream() { return streams_++; }
  // Returns the entry's index.
  int Add(int stream, PlannedWork work, int after = kNothing);
  // Who enqueues from here on has waited for `entry`, on whichever stream.
  void HostWaits(int entry);
  // Index of the last entry of `stream`, or kNothing.
  int Last(int stream) const;

  // Computes when everything so far begins and ends.
  void Run();
  // All is done: forgets it. Indices of before mean kNothing from here on, which `epoch` tells.
  void Clear();
  int epoch() const { return epoch_; }

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  std::vector<int> last_;  // by stream
  int streams_ = 0;
  int epoch_ = 0;
  int host_after_ = kNothing;
  std::vector<int> host_seen_;  // by stream: the host's wait that its entries come after already
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_DEVICE_PLANNED_WORK_LEDGER_H_
