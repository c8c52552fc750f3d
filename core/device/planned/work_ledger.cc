// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/planned/work_ledger.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "zeroth/core/base/check.h"

namespace zeroth {

int WorkLedger::Last(int stream) const {
  const auto at = static_cast<size_t>(stream);
  return at < last_.size() ? last_[at] : kNothing;
}

int WorkLedger::Add(int stream, PlannedWork work, int after) {
  const auto at = static_cast<size_t>(stream);
  if (at >= last_.size()) last_.resize(at + 1, kNothing);
  if (at >= host_seen_.size()) host_seen_.resize(at + 1, kNothing);
  if (host_after_ != host_seen_[at]) {
    host_seen_[at] = host_after_;
    Add(stream, {}, host_after_);
  }
  ZEROTH_CHECK(after < static_cast<int>(entries_.size()));
  entries_.push_back({std::move(work), stream, after});
  last_[at] = static_cast<int>(entries_.size()) - 1;
  return last_[at];
}

void WorkLedger::HostWaits(int entry) { host_after_ = std::max(host_after_, entry); }

void WorkLedger::Clear() {
  entries_.clear();
  last_.clear();
  host_seen_.clear();
  host_after_ = kNothing;
  ++epoch_;
}

void WorkLedger::Run() {
  struct Queue {
    std::vector<int> entries;
    size_t next = 0;
    bool running = false;
    double latency = 0;  // remaining
    double seconds = 0;
  };
  std::vector<Queue> queues(static_cast<size_t>(streams_));
  for (size_t i = 0; i < entries_.size(); ++i) {
    queues[static_cast<size_t>(entries_[i].stream)].entries.push_back(static_cast<int>(i));
  }
  std::vector<bool> done(entries_.size(), false);
  double now = 0;
  size_t left = entries_.size();
  while (left > 0) {
    // Starts all work that may begin. Work that takes no time ends at once, and others may begin.
    for (bool changed = true; changed;) {
      changed = false;
      for (Queue& queue : queues) {
        if (queue.next == queue.entries.size()) continue;
        const auto index = static_cast<size_t>(queue.entries[queue.next]);
        Entry& entry = entries_[index];
        if (!queue.running) {
          if (entry.after != kNothing && !done[static_cast<size_t>(entry.after)]) continue;
          queue.running = true;
          queue.latency = entry.work.latency;
          queue.seconds = entry.work.seconds;
          entry.begin = now;
        }
        if (queue.latency > 0 || queue.seconds > 0) continue;
        entry.end = now;
        done[index] = true;
        queue.running = false;
        ++queue.next;
        --left;
        changed = true;
      }
    }
    if (left == 0) return;
    std::array<int, kResourceCount> sharing{};
    bool sends = false;  // a collective's kernel is there from its start on, its latency included
    const auto work_of = [&](const Queue& queue) -> const PlannedWork& {
      return entries_[static_cast<size_t>(queue.entries[queue.next])].work;
    };
    for (const Queue& queue : queues) {
      if (!queue.running) continue;
      const PlannedWork& work = work_of(queue);
      if (queue.latency <= 0) ++sharing[static_cast<size_t>(work.resource)];
      sends = sends || (*work.collective != '\0' && work.resource != Resource::kCompute &&
                        !work.by_copy_engine);
    }
    const auto share_of = [&](const Queue& queue) {
      const Resource resource = work_of(queue).resource;
      if (resource == Resource::kNone) return 1.0;
      const double share = std::max(1, sharing[static_cast<size_t>(resource)]);
      return resource == Resource::kCompute && sends ? share / beside_collectives_ : share;
    };
    double step = std::numeric_limits<double>::infinity();
    for (const Queue& queue : queues) {
      if (!queue.running) continue;
      step = std::min(step, queue.latency > 0 ? queue.latency : queue.seconds * share_of(queue));
    }
    // Events point backwards, so that some work can always run.
    ZEROTH_CHECK(step < std::numeric_limits<double>::infinity());
    now += step;
    for (Queue& queue : queues) {
      if (!queue.running) continue;
      double& rest = queue.latency > 0 ? queue.latency : queue.seconds;
      const double share = queue.latency > 0 ? 1 : share_of(queue);
      // A remainder from rounding counts as zero.
      rest = rest * share <= step * (1 + 1e-12) ? 0 : rest - step / share;
    }
  }
}

}  // namespace zeroth
