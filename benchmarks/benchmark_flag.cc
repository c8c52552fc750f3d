// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/benchmarks/benchmark_flag.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace zeroth {
namespace {

std::vector<BenchmarkFlag*>& Flags() {
  static auto* const flags = new std::vector<BenchmarkFlag*>;
  return *flags;
}

}  // namespace

BenchmarkFlag::BenchmarkFlag(std::string name, std::string value)
    : name_(std::move(name)), value_(std::move(value)) {
  Flags().push_back(this);
}

void ParseBenchmarkFlags(int* argc, char** argv) {
  const auto is_ours = [](absl::string_view argument) {
    for (BenchmarkFlag* const flag : Flags()) {
      if (!absl::ConsumePrefix(&argument, absl::StrCat("--", flag->name_, "="))) continue;
      flag->value_ = std::string(argument);
      return true;
    }
    return false;
  };
  *argc = static_cast<int>(std::remove_if(argv + 1, argv + *argc, is_ours) - argv);
}

}  // namespace zeroth
