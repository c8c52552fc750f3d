// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs a format's FuzzTarget under libFuzzer. Adds the target's seeds to the corpora that are named
// on the command line.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  static const zeroth::TemporaryDirectory seeds;
  static std::string folder = seeds.path();
  static std::vector<char*> arguments(*argv, *argv + *argc);
  for (size_t i = 1; i < arguments.size(); ++i) {
    std::error_code error;
    if (std::filesystem::is_regular_file(arguments[i], error)) return 0;
  }
  const std::vector<std::string> files = zeroth::GetFuzzTarget().seeds();
  for (size_t i = 0; i < files.size(); ++i) seeds.Write(absl::StrCat("seed-", i), files[i]);
  arguments.push_back(folder.data());
  *argc = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  *argv = arguments.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const zeroth::FuzzTarget target = zeroth::GetFuzzTarget();
  zeroth::RunFuzzTarget(target, {data, size}, "input");
  return 0;
}
