// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/kernels/kernels.h"
#include "zeroth/plan/plan.h"

namespace zeroth {

// Measures how long the calls of each operation take. For kernels of a CPU's compute stream, whose
// calls are done on return. Watches `kernels` during its lifetime; used by one rank's thread only.
class OperationTimes : public CallWatch {
 public:
  struct Time {
    int64_t calls = 0;
    double seconds = 0;
  };

  // `kernels` outlives the object.
  explicit OperationTimes(Kernels& kernels);
  ~OperationTimes() override;

  void BeforeCall(const char* operation) override;
  absl::Status AfterCall(const char* operation, absl::Span<const CallField> fields) override;
  // Returns the times since the last call of this function, by the operation's name.
  std::map<std::string, Time> Take();

 private:
  Kernels& kernels_;
  std::chrono::steady_clock::time_point begin_;
  std::map<std::string, Time> times_;
};

// The work and waits of rank 0 in `steps` steps.
struct StepTimes {
  int64_t steps = 0;
  double seconds = 0;  // of all these steps
  double waited = 0;   // of these, for collectives
  std::map<std::string, OperationTimes::Time> operations;
};

// Returns a table of a step's operations: the longest first, with their share of the step, their
// rate, and the planned time of `plan` over the measured one. After them come the waits, and what
// is left: the host's time between operations.
std::string BreakdownText(const StepTimes& measured, const Plan& plan);

}  // namespace zeroth
