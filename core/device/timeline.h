// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// When what ran on which stream: the evidence that traffic hides behind compute.

#ifndef ZEROTH_CORE_DEVICE_TIMELINE_H_
#define ZEROTH_CORE_DEVICE_TIMELINE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/device/device.h"

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
  };

  // Marks the place in `stream` where `label` begins, or ends; spans of one stream nest. Costs
  // nothing while recording is off.
  absl::Status Begin(Stream& stream, absl::string_view label);
  absl::Status End(Stream& stream, absl::string_view label);

  bool recording() const { return recording_; }
  void set_recording(bool on) { recording_ = on; }

  // Everything recorded so far, by begin, and forgets it; waits until it has happened.
  // FailedPrecondition names a label that was ended and not begun, or the reverse.
  absl::StatusOr<std::vector<Span>> Take();

 private:
  struct Mark {
    std::string stream;
    std::string label;
    bool begins;
    std::shared_ptr<Event> event;
  };

  absl::Status Add(Stream& stream, absl::string_view label, bool begins);

  bool recording_ = false;
  std::vector<Mark> marks_;
};

// `spans` in the format of chrome://tracing and Perfetto: a process `process` with a thread for
// each stream.
std::string ChromeTrace(absl::Span<const Timeline::Span> spans, absl::string_view process);

}  // namespace zeroth

#endif  // ZEROTH_CORE_DEVICE_TIMELINE_H_
