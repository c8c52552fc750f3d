// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs the benchmarks that are linked in, and then prints a table of their ratios to their floors.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/parse.h"
#include "benchmark/benchmark.h"

namespace {

// Google Benchmark 1.8 changed the name and type of the member. Our benchmarks skip only after
// errors.
template <typename Run>
bool Failed(const Run& run) {
  if constexpr (requires { run.error_occurred; }) {
    return run.error_occurred;
  } else {
    return run.skipped != decltype(run.skipped){};
  }
}

// Prints like ConsoleReporter, and records the values that the table needs.
class TableReporter : public benchmark::ConsoleReporter {
 public:
  // Colours are for terminals only.
  TableReporter() : ConsoleReporter(isatty(STDOUT_FILENO) == 1 ? OO_Color : OO_None) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      Row row;
      row.name = run.benchmark_name();
      row.failed = Failed(run);
      row.milliseconds = run.iterations > 0
                             ? run.real_accumulated_time * 1e3 / static_cast<double>(run.iterations)
                             : 0;
      const auto ratio = run.counters.find("ratio_to_floor");
      if (ratio != run.counters.end()) row.ratio = static_cast<double>(ratio->second);
      rows_.push_back(row);
    }
  }

  // Prints the table. Returns true if nothing failed.
  bool PrintTable() const {
    size_t width = 9;
    for (const Row& row : rows_) width = std::max(width, row.name.size());
    std::printf("\n%-*s  %12s  %14s\n", static_cast<int>(width), "benchmark", "ms",
                "ratio to floor");
    bool all_well = true;
    for (const Row& row : rows_) {
      if (row.failed) {
        all_well = false;
        std::printf("%-*s  %12s\n", static_cast<int>(width), row.name.c_str(), "FAILED");
      } else {
        std::printf("%-*s  %12.3f  ", static_cast<int>(width), row.name.c_str(), row.milliseconds);
        if (row.ratio.has_value()) {
          std::printf("%14.2f\n", *row.ratio);
        } else {
          std::printf("%14s\n", "-");
        }
      }
    }
    return all_well;
  }

 private:
  struct Row {
    std::string name;
    bool failed = false;
    double milliseconds = 0;
    std::optional<double> ratio;  // none without a floor
  };
  std::vector<Row> rows_;
};

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (benchmark::ReportUnrecognizedArguments(static_cast<int>(rest.size()), rest.data())) return 1;
  TableReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::Shutdown();
  return reporter.PrintTable() ? 0 : 1;
}
