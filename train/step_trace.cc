// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/step_trace.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr int64_t kFirstStep = 2;
constexpr int64_t kSteps = 3;

}  // namespace

absl::StatusOr<StepTrace> StepTrace::Create(const std::string& path, int64_t steps) {
  if (!path.empty() && !std::ofstream(path, std::ios::app)) {
    return absl::PermissionDeniedError(
        absl::StrCat("--trace=", path, ": cannot write this file: ", std::strerror(errno)));
  }
  StepTrace trace(path);
  trace.set_steps(steps);
  return trace;
}

void StepTrace::set_steps(int64_t steps) {
  last_ = std::min(steps, kFirstStep + kSteps) - 1;
  first_ = std::max<int64_t>(0, std::min(kFirstStep, last_));
}

void StepTrace::BeforeStep(int64_t step) {
  timeline_.set_recording(!path_.empty() && step >= first_ && step <= last_);
}

absl::StatusOr<bool> StepTrace::AfterStep(int64_t step) {
  timeline_.set_recording(false);
  if (path_.empty() || step != last_) return false;
  ZEROTH_RETURN_IF_ERROR(Write());
  return true;
}

absl::StatusOr<bool> StepTrace::Finish() {
  if (path_.empty() || written_) return false;
  ZEROTH_RETURN_IF_ERROR(Write());
  return true;
}

absl::Status StepTrace::Write() {
  written_ = true;  // or it cannot be: the spans are taken once
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<Timeline::Span> spans, timeline_.Take());
  ZEROTH_RETURN_IF_ERROR_WITH(WriteFileDurably(path_, ChromeTrace(spans, "rank 0")), "--trace");
  return absl::OkStatus();
}

}  // namespace zeroth
