// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_STEP_TRACE_H_
#define ZEROTH_TRAIN_STEP_TRACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/train/options.h"

namespace zeroth {

inline constexpr char kTraceFile[] = "trace.json";

// The timeline of some steps of all ranks, in one file. One rank's thread only; collective.
class StepTrace {
 public:
  // Without a range nothing is recorded. `world` and `device` outlive it.
  StepTrace(std::optional<StepRange> range, Communicator& world, Device& device);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  // What the scheduler is to mark.
  Timeline* timeline() { return &timeline_; }

  // Around each step. Before the first that is recorded there are barriers, whose opening tells the
  // ranks' clocks apart.
  absl::Status BeforeStep(int64_t step);
  absl::Status AfterStep(int64_t step);
  // Whether all that is to be recorded is, or will be by no step after `step`.
  bool IsComplete(int64_t step) const;
  // Rank 0 writes `directory`/trace.json, once. What there is to say of it then, on rank 0: which
  // part of the steps ranks waited for communication, in the mean over ranks, and for which; and
  // which part of each stream's traffic went on while the compute stream did not wait. Empty if
  // nothing was recorded, or all has been written.
  absl::StatusOr<std::string> Write(const std::string& directory);

 private:
  // To be added to this device's clock, so that all ranks have rank 0's, from the last barrier on.
  absl::StatusOr<double> ClockOffset();

  const std::optional<StepRange> range_;
  Communicator& world_;
  Device& device_;
  std::vector<double> opened_;  // when the barriers did, in seconds on the device's clock
  int64_t steps_ = 0;
  bool written_ = false;
  Timeline timeline_;
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_STEP_TRACE_H_
