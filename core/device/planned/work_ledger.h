// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zeroth {

// The resource that a piece of work occupies. Two pieces on the same resource share its speed.
enum class Resource : uint8_t { kNone, kCompute, kLink, kNetwork, kHost };
inline constexpr int kResourceCount = 5;

// A piece of work of a stream.
struct PlannedWork {
  std::string label;  // "a matmul", "all_gather of h.3"
  Resource resource = Resource::kNone;
  double seconds = 0;           // with the resource to itself, on top of `latency`
  double latency = 0;           // comes first, and is not shared
  const char* collective = "";  // "all_gather", …; empty: no collective
  int64_t bytes = 0;            // that a collective sends
  bool by_copy_engine = false;  // a collective that occupies no SMs
  int64_t bytes_across = 0;     // of a collective, sent to other nodes
  int launches = 0;             // kernels of an operation
  double flops = 0;             // of an operation
  double memory_bytes = 0;      // that an operation reads and writes
};

// Computes when each piece of work begins and ends from the order in which it was enqueued: streams
// run in order, events order them, and work on one resource shares it. Not thread-safe.
class WorkLedger {
 public:
  // `beside_collectives`: the part of its speed that compute keeps while a collective's kernel is
  // in flight. Collectives on the compute resource itself do not count.
  explicit WorkLedger(double beside_collectives = 1) : beside_collectives_(beside_collectives) {}

  static constexpr int kNothing = -1;  // the index of work that is done already

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
  // The host waits for `entry`: what it enqueues later, on any stream, begins after that.
  void HostWaits(int entry);
  // Returns the index of the last entry of `stream`, or kNothing.
  int Last(int stream) const;

  // Computes when everything so far begins and ends.
  void Run();
  // Forgets all entries, which are done. Indices of an earlier epoch mean kNothing from here on.
  void Clear();
  int epoch() const { return epoch_; }

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  const double beside_collectives_;
  std::vector<Entry> entries_;
  std::vector<int> last_;  // by stream
  int streams_ = 0;
  int epoch_ = 0;
  int host_after_ = kNothing;
  std::vector<int> host_seen_;  // by stream: the host's last wait that its entries come after
};

}  // namespace zeroth
