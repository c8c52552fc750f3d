// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Encodes English text on one thread, in processor time. The floor is Python's package "tokenizers"
// in the same run. --tokenizer=DIRECTORY with a tokenizer.json, --text=FILE; --python=INTERPRETER
// with the package.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

ABSL_FLAG(std::string, tokenizer, "tests/testdata/tokenizers/llama3",
          "A directory with a tokenizer.json.");
ABSL_FLAG(std::string, text, "", "A text file; this project's README and licence.");
ABSL_FLAG(std::string, python, "", "The Python that has the package tokenizers.");

namespace zeroth {
namespace {

constexpr size_t kTextBytes = size_t{8} << 20;

// Returns the file, or repetitions of this project's README and licence.
const std::string& Text() {
  static const std::string text = [] {
    std::string all;
    if (!absl::GetFlag(FLAGS_text).empty()) {
      all = ReadFile(absl::GetFlag(FLAGS_text)).value_or("");
    } else {
      for (const char* const name : {"README.md", "LICENSE"}) all += ReadFile(name).value_or("");
      while (!all.empty() && all.size() < kTextBytes) all += all;
    }
    all.resize(std::min(all.size(), kTextBytes));
    return all;
  }();
  return text;
}

// Returns the processor seconds that Python needs for the text, the best of three, or 0 if it lacks
// the package.
double PythonSeconds() {
  static const double seconds = [] {
    std::string python = absl::GetFlag(FLAGS_python);
    if (python.empty()) {
      const char* const file = std::getenv("INTERPRETER_FILE");
      python = std::string(
          absl::StripSuffix(file == nullptr ? std::string() : ReadFile(file).value_or(""), "\n"));
    }
    if (python.empty()) python = "python3";
    const std::string copy =
        absl::StrCat("/tmp/zeroth_tokenizer_benchmark_", std::to_string(getpid()));
    if (!WriteFileDurably(copy, Text()).ok()) return 0.0;
    const std::string command =
        absl::StrCat(python, " benchmarks/tokenizers_seconds.py '", absl::GetFlag(FLAGS_tokenizer),
                     "/tokenizer.json' ", copy, " 2>/dev/null");
    double result = 0;
    if (FILE* const pipe = popen(command.c_str(), "r")) {
      char line[64] = {};
      if (std::fgets(line, sizeof(line), pipe) == nullptr ||
          !absl::SimpleAtod(absl::StripSuffix(line, "\n"), &result))
        result = 0;
      pclose(pipe);
    }
    std::remove(copy.c_str());
    return result;
  }();
  return seconds;
}

void BM_Encode(benchmark::State& state) {
  const auto tokenizer = OpenTokenizer(absl::GetFlag(FLAGS_tokenizer), {.parse_special = true});
  if (!tokenizer.ok() || Text().empty()) {
    state.SkipWithError(tokenizer.ok() ? "no text" : tokenizer.status().ToString().c_str());
    return;
  }
  const double python = PythonSeconds();
  size_t ids = 0;
  for (auto _ : state) {
    ids = 0;
    const absl::Status status =
        (*tokenizer)->EncodeTo(Text(), false, [&ids](absl::Span<const int32_t> piece) {
          ids += piece.size();
        });
    if (!status.ok()) state.SkipWithError(status.ToString().c_str());
  }
  const auto bytes = static_cast<double>(Text().size());
  state.counters["MB/s"] =
      benchmark::Counter(bytes * 1e-6, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["ids"] = static_cast<double>(ids);
  if (python > 0) {
    state.counters["python_MB/s"] = bytes * 1e-6 / python;
    // Above 1, our tokenizer is faster.
    state.counters["ratio_to_floor"] =
        benchmark::Counter(python, benchmark::Counter::kIsIterationInvariantRate);
  }
}
BENCHMARK(BM_Encode)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace zeroth
