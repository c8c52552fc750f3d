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

  // How many steps there are after all, as in a run that goes on from an earlier one; before the
  // first.
  void set_steps(int64_t steps);
  // What the scheduler is to mark. The trace must not move any more once somebody holds this.
  Timeline* timeline() { return &timeline_; }
  // Around each step, counted from 0. After the last one that is recorded, writes the file and
  // returns true.
  void BeforeStep(int64_t step);
  absl::StatusOr<bool> AfterStep(int64_t step);
  // For a run that ends early: writes what there is, and returns true, unless AfterStep has.
  absl::StatusOr<bool> Finish();

 private:
  explicit StepTrace(std::string path) : path_(std::move(path)) {}
  absl::Status Write();

  std::string path_;
  int64_t first_ = 0;
  int64_t last_ = 0;
  bool written_ = false;
  Timeline timeline_;
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_STEP_TRACE_H_
