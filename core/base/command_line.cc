// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/command_line.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace zeroth {

void ShowFlagsOf(std::string source) {
  absl::FlagsUsageConfig usage;
  usage.contains_helpshort_flags = [source = std::move(source)](absl::string_view file) {
    return absl::StrContains(file, source);
  };
  usage.contains_help_flags = usage.contains_helpshort_flags;
  absl::SetFlagsUsageConfig(usage);
}

int RunProgram(absl::FunctionRef<absl::Status()> program) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::string error;
  try {
    const absl::Status status = program();
    if (status.ok()) return 0;
    error = std::string(status.message());
  } catch (const std::bad_alloc&) {
    error = "there is not enough memory for this; the system gave no more";
  } catch (const std::exception& exception) {
    error = absl::StrCat("threw an exception: ", exception.what());
  }
  std::fprintf(stderr, "error: %s\n", error.c_str());
  return 1;
}

absl::Status EnterUsersDirectory() {
  const char* directory = std::getenv("BUILD_WORKING_DIRECTORY");
  if (directory == nullptr || chdir(directory) == 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("cannot enter ", directory, ": ", std::strerror(errno)));
}

}  // namespace zeroth
