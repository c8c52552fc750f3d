// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// When what ran on which stream: the evidence that traffic hides behind compute.

#ifndef ZEROTH_CORE_DEVICE_TIMELINE_H_
#define ZEROTH_CORE_DEVICE_TIMELINE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/device/memory.h"

namespace zeroth {

// Marks are timed events in the streams themselves, so recording changes no order and makes nobody
// wait. Used by one rank's thread only.
class Timeline {
 public:
  // Something that a stream did, in seconds on the device's clock.
  struct Span {
    std::string stream;
    std::string label;
    double begin = 0;
    double end = 0;
    int64_t bytes = -1;  // that it has moved; negative: it is not about such
  };
  // Memory in use, by category, as far as the host had come when the compute stream was where a
  // mark is.
  struct MemorySample {
    double seconds = 0;
    std::array<int64_t, kMemoryCategoryCount> bytes{};
  };

  // Marks the place in `stream` where `label` begins, or ends; spans of one stream nest. Costs
  // nothing while recording is off.
  absl::Status Begin(Stream& stream, absl::string_view label);
  absl::Status End(Stream& stream, absl::string_view label, int64_t bytes = -1);

  bool recording() const { return recording_; }
  void set_recording(bool on) { recording_ = on; }

  // Whether waits are added up, for the price of two events each; apart from recording.
  bool counts_waits() const { return counts_waits_; }
  // Forgets what has been added up, and begins or stops to.
  void set_counts_waits(bool on);
  // Around what `stream` stands still for. Only the compute stream's waits count.
  absl::Status BeginWait(Stream& stream) { return AddWait(stream); }
  absl::Status EndWait(Stream& stream) { return AddWait(stream); }
  // Seconds of all of these since they are added up, once they are over.
  absl::StatusOr<double> Waited() const;

  // Everything recorded so far, by begin, and forgets it; waits until it has happened.
  // FailedPrecondition names a label that was ended and not begun, or the reverse.
  absl::StatusOr<std::vector<Span>> Take(std::vector<MemorySample>* memory = nullptr);

 private:
  struct Mark {
    std::string stream;
    std::string label;
    bool begins;
    int64_t bytes;
    std::shared_ptr<Event> event;
    std::unique_ptr<MemorySample> memory;  // of marks in the compute stream
  };

  absl::Status Add(Stream& stream, absl::string_view label, bool begins, int64_t bytes);
  absl::Status AddWait(Stream& stream);

  bool recording_ = false;
  bool counts_waits_ = false;
  std::vector<std::shared_ptr<Event>> waits_;  // begins and ends in turn
  std::vector<Mark> marks_;
};

// Calls `work`, which enqueues on `stream`, and marks that as "what of" for a timeline that
// records; it may be nullptr. Returns what `work` returns; an error of the timeline only if `work`
// succeeds.
template <typename Work>
auto Timed(Timeline* timeline, Stream& stream, absl::string_view what, absl::string_view of,
           Work work) -> decltype(work()) {
  if (timeline == nullptr || !timeline->recording()) return work();
  const std::string label = std::string(what) + " " + std::string(of);
  if (absl::Status begun = timeline->Begin(stream, label); !begun.ok()) return begun;
  auto result = work();
  if (absl::Status ended = timeline->End(stream, label); result.ok() && !ended.ok()) return ended;
  return result;
}

// What a stream does while it does nothing, as the beginning of a label: "wait for gather h.0".
inline constexpr char kWaitFor[] = "wait for";

// As Timed, for `work` that `stream` stands still for.
template <typename Work>
auto TimedWait(Timeline* timeline, Stream& stream, absl::string_view what, absl::string_view of,
               Work work) -> decltype(work()) {
  if (timeline == nullptr) return work();
  if (absl::Status begun = timeline->BeginWait(stream); !begun.ok()) return begun;
  auto result = Timed(timeline, stream, what, of, work);
  if (absl::Status ended = timeline->EndWait(stream); result.ok() && !ended.ok()) return ended;
  return result;
}

// Spans and samples as events of chrome://tracing and Perfetto, JSON objects with commas in
// between: process number `rank` with a thread for each stream, moved by `offset` seconds. Whoever
// writes a file puts those of all ranks into {"traceEvents": [...]}.
std::string ChromeTraceEvents(absl::Span<const Timeline::Span> spans,
                              absl::Span<const Timeline::MemorySample> memory, int rank,
                              double offset);

}  // namespace zeroth

#endif  // ZEROTH_CORE_DEVICE_TIMELINE_H_
