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

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace zeroth {

std::vector<std::string> ParseFlagsAndWords(absl::string_view usage, std::string source, int argc,
                                            char** argv) {
  absl::SetProgramUsageMessage(usage);
  absl::FlagsUsageConfig config;
  config.contains_helpshort_flags = [source = std::move(source)](absl::string_view file) {
    return absl::StrContains(file, source);
  };
  config.contains_help_flags = config.contains_helpshort_flags;
  absl::SetFlagsUsageConfig(config);
  const std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  return {words.begin() + 1, words.end()};
}

absl::Status ParseFlags(absl::string_view usage, std::string source, absl::string_view example,
                        int argc, char** argv) {
  const std::vector<std::string> words = ParseFlagsAndWords(usage, std::move(source), argc, argv);
  if (words.empty()) return EnterUsersDirectory();
  return absl::InvalidArgumentError(absl::StrCat("unexpected argument '", words[0],
                                                 "': flags start with --, as in ", example,
                                                 "; see --help"));
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
