// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/options/options.h"

namespace zeroth {

inline constexpr char kTraceFile[] = "trace.json";

// Records a timeline of some steps of all ranks and writes it to one file. Collective; only the
// rank's thread may call it.
class StepTrace {
 public:
  // Records nothing without a range. `world` and `device` outlive the trace.
  StepTrace(std::optional<StepRange> range, Communicator& world, Device& device);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  // The timeline for the scheduler to write to.
  Timeline* timeline() { return &timeline_; }

  // Call these around each step. Barriers before the first recorded step measure the differences
  // between the ranks' clocks.
  absl::Status BeforeStep(int64_t step);
  absl::Status AfterStep(int64_t step);
  // True if `step` is the last step of the range or a later one, and the trace was not written yet.
  bool IsComplete(int64_t step) const;
  // Rank 0 writes `directory`/trace.json, once. Returns a summary on rank 0: the fraction of step
  // time that ranks waited for communication (mean over ranks), by cause; and the fraction of each
  // stream's traffic that overlapped with computation. Empty if nothing was recorded, or if the
  // trace was written before.
  absl::StatusOr<std::string> Write(const std::string& directory);

 private:
  // Returns the offset to add to this device's clock to get rank 0's, counted from the last
  // barrier.
  absl::StatusOr<double> ClockOffset();

  const std::optional<StepRange> range_;
  Communicator& world_;
  Device& device_;
  std::vector<double> opened_;  // when the barriers opened, in seconds on the device's clock
  int64_t steps_ = 0;
  bool written_ = false;
  Timeline timeline_;
};

}  // namespace zeroth
