// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_STEP_TRACE_H_
#define ZEROTH_TRAIN_STEP_TRACE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/device/timeline.h"

namespace zeroth {

// The timeline of a few steps of one rank, in a file. The first steps are left out where there are
// enough others: they allocate, and learn the order of units. One rank's thread only.
class StepTrace {
 public:
  // An empty path: nothing is recorded. PermissionDenied if the file cannot be written.
  static absl::StatusOr<StepTrace> Create(const std::string& path, int64_t steps);

  // What the scheduler is to mark. The trace must not move any more once somebody holds this.
  Timeline* timeline() { return &timeline_; }
  // Around each step, counted from 0. After the last one that is recorded, writes the file and
  // returns true.
  void BeforeStep(int64_t step);
  absl::StatusOr<bool> AfterStep(int64_t step);

 private:
  StepTrace(std::string path, int64_t first, int64_t last)
      : path_(std::move(path)), first_(first), last_(last) {}

  std::string path_;
  int64_t first_;
  int64_t last_;
  Timeline timeline_;
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_STEP_TRACE_H_
