// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer as a process, for tests: flags and environment in, files, logs and exit codes out.

#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace zeroth::testing {

namespace fs = std::filesystem;

using Flags = std::vector<std::string>;
// Names and values.
using Environment = std::vector<std::pair<std::string, std::string>>;

std::string Read(const fs::path& path);
void Write(const fs::path& path, const std::string& text);
// A fresh directory for the test that runs.
fs::path Scratch();

// `log` has the trainer's stdout, and ErrorLog(log) its stderr.
fs::path ErrorLog(const fs::path& log);
std::string Logs(const fs::path& log);

// Starts it, in a working directory that `bazel run` would name, with additions to its environment,
// or another trainer instead.
pid_t Start(const Flags& flags, const fs::path& log, const std::string& directory = "",
            const Environment& environment = {}, const std::string& program = "train/train");
// Waits, even if one of the test's signals interrupts the wait, and returns the exit code, or -1
// for a process that a signal ended.
int Wait(pid_t child);

struct Outcome {
  int exit_code = -1;
  std::string output;  // both streams
  std::string errors;  // stderr alone
};
Outcome RunTrainer(const Flags& flags, const std::string& directory = "");

// The complete lines of out/metrics.jsonl, a step and its evaluation as one.
std::vector<nlohmann::json> Metrics(const fs::path& out);
// For each step there: number, loss, gradient norm, and the metrics of held-out data.
std::vector<nlohmann::json> StepFacts(const fs::path& out);

// The run that tests/testdata/gpt2_tiny records.
Flags Reference(const fs::path& out);
Flags With(Flags flags, const Flags& more);

}  // namespace zeroth::testing
