// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_BENCHMARKS_BENCHMARK_FLAG_H_
#define ZEROTH_BENCHMARKS_BENCHMARK_FLAG_H_

#include <string>

namespace zeroth {

// A flag of a file of benchmarks, --name=value, beside Google Benchmark's own. A static object
// registers itself; names are unique in a program.
class BenchmarkFlag {
 public:
  BenchmarkFlag(std::string name, std::string value);
  BenchmarkFlag(const BenchmarkFlag&) = delete;
  BenchmarkFlag& operator=(const BenchmarkFlag&) = delete;

  const std::string& value() const { return value_; }

 private:
  friend void ParseBenchmarkFlags(int* argc, char** argv);
  const std::string name_;
  std::string value_;
};

// Takes the registered flags out of the arguments and leaves the rest.
void ParseBenchmarkFlags(int* argc, char** argv);

}  // namespace zeroth

#endif  // ZEROTH_BENCHMARKS_BENCHMARK_FLAG_H_
