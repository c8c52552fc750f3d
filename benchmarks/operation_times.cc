// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/benchmarks/operation_times.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace zeroth {

OperationTimes::OperationTimes(Kernels& kernels) : kernels_(kernels) { kernels_.set_watch(this); }

OperationTimes::~OperationTimes() { kernels_.set_watch(nullptr); }

void OperationTimes::BeforeCall(const char* /*operation*/) {
  begin_ = std::chrono::steady_clock::now();
}

absl::Status OperationTimes::AfterCall(const char* operation,
                                       absl::Span<const CallField> /*fields*/) {
  Time& time = times_[operation];
  ++time.calls;
  time.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  return absl::OkStatus();
}

std::map<std::string, OperationTimes::Time> OperationTimes::Take() {
  return std::exchange(times_, {});
}

std::string BreakdownText(const StepTimes& measured, const Plan& plan) {
  const auto steps = static_cast<double>(measured.steps);
  const double step = measured.seconds / steps;
  std::string text = absl::StrFormat("%-20s %6s %9s %6s %9s %7s %14s\n", "operation", "calls", "ms",
                                     "share", "GFLOP/s", "GB/s", "planned / ms");
  const auto add_row = [&](absl::string_view name, double seconds) {
    absl::StrAppendFormat(&text, "%-20s %6s %9.2f %5.1f%%\n", name, "", 1e3 * seconds,
                          100 * seconds / step);
  };
  std::vector<std::pair<std::string, OperationTimes::Time>> rows(measured.operations.begin(),
                                                                 measured.operations.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  double between = step - measured.waited / steps;
  for (const auto& [name, time] : rows) {
    const double seconds = time.seconds / steps;
    between -= seconds;
    absl::StrAppendFormat(&text, "%-20s %6.0f %9.2f %5.1f%%", name,
                          static_cast<double>(time.calls) / steps, 1e3 * seconds,
                          100 * seconds / step);
    if (const auto cost = plan.operations.find(name); cost != plan.operations.end()) {
      absl::StrAppendFormat(&text, " %9.1f %7.1f %14.2f", 1e-9 * cost->second.flops / seconds,
                            1e-9 * cost->second.bytes / seconds, cost->second.seconds / seconds);
    }
    absl::StrAppend(&text, "\n");
  }
  add_row("waits", measured.waited / steps);
  add_row("between operations", between);
  add_row("step", step);
  return text;
}

}  // namespace zeroth
