// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Records what ran when on which stream, to show how communication overlaps with compute.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/device/memory.h"

namespace zeroth {

// Marks are timed events in the streams, so recording changes no order and no thread waits. Used by
// one rank's thread only.
class Timeline {
 public:
  // A period of a stream's work, in seconds on the device's clock.
  struct Span {
    std::string stream;
    std::string label;
    double begin = 0;
    double end = 0;
    int64_t bytes = -1;  // bytes that the work moved; negative: none
  };
  // Memory in use by category when the host enqueued a mark on the compute stream, reported at the
  // time of that mark.
  struct MemorySample {
    double seconds = 0;
    std::array<int64_t, kMemoryCategoryCount> bytes{};
  };

  // Mark the place in `stream` where `label` begins or ends. Spans of one stream nest. Cost nothing
  // while recording is off.
  absl::Status Begin(Stream& stream, absl::string_view label);
  absl::Status End(Stream& stream, absl::string_view label, int64_t bytes = -1);

  bool recording() const { return recording_; }
  void set_recording(bool on) { recording_ = on; }

  // Starts or stops to add up the compute stream's waits, from zero. A wait costs two events. It is
  // independent of recording.
  void set_counts_waits(bool on);
  // Call it before and after work that `stream` waits for. Only the compute stream's waits count.
  absl::Status AddWait(Stream& stream);
  // Returns the seconds of all waits since set_counts_waits(true). Blocks until they are over.
  absl::StatusOr<double> Waited() const;

  // Returns all spans recorded so far, ordered by begin, and forgets them. Blocks until their work
  // has run. FailedPrecondition names a label that was ended but not begun, or begun but not ended.
  absl::StatusOr<std::vector<Span>> Take(std::vector<MemorySample>* memory = nullptr);

 private:
  struct Mark {
    std::string stream;
    std::string label;
    bool begins;
    int64_t bytes;
    std::shared_ptr<Event> event;
    std::unique_ptr<MemorySample> memory;  // only at marks of the compute stream
  };

  absl::Status Add(Stream& stream, absl::string_view label, bool begins, int64_t bytes);

  bool recording_ = false;
  bool counts_waits_ = false;
  std::vector<std::shared_ptr<Event>> waits_;  // alternating begins and ends
  std::vector<Mark> marks_;
};

// Calls `work`, which enqueues on `stream`, and returns its result. If `timeline` is not null and
// records, marks the work as "`what` `of`", which moves `bytes` (negative: none); an error of the
// timeline is returned only if `work` succeeds.
template <typename Work>
auto Timed(Timeline* timeline, Stream& stream, absl::string_view what, absl::string_view of,
           Work work, int64_t bytes = -1) -> decltype(work()) {
  if (timeline == nullptr || !timeline->recording()) return work();
  const std::string label = absl::StrCat(what, " ", of);
  if (absl::Status begun = timeline->Begin(stream, label); !begun.ok()) return begun;
  auto result = work();
  if (absl::Status ended = timeline->End(stream, label, bytes); result.ok() && !ended.ok())
    return ended;
  return result;
}

// The beginning of the label of a wait: "wait for gather h.0".
inline constexpr char kWaitFor[] = "wait for";

// Like Timed, for `work` that `stream` waits for.
template <typename Work>
auto TimedWait(Timeline* timeline, Stream& stream, absl::string_view what, absl::string_view of,
               Work work, int64_t bytes = -1) -> decltype(work()) {
  if (timeline == nullptr) return work();
  if (absl::Status begun = timeline->AddWait(stream); !begun.ok()) return begun;
  auto result = Timed(timeline, stream, what, of, work, bytes);
  if (absl::Status ended = timeline->AddWait(stream); result.ok() && !ended.ok()) return ended;
  return result;
}

// Returns spans and samples as events of chrome://tracing and Perfetto: JSON objects with commas
// between them, of process number `rank` with a thread for each stream. Adds `offset` seconds to
// all times. The caller writes those of all ranks into {"traceEvents": [...]}.
std::string ChromeTraceEvents(absl::Span<const Timeline::Span> spans,
                              absl::Span<const Timeline::MemorySample> memory, int rank,
                              double offset);

}  // namespace zeroth
