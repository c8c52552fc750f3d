// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/command_line.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
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

absl::Status EnterUsersDirectory() {
  const char* directory = std::getenv("BUILD_WORKING_DIRECTORY");
  if (directory == nullptr || chdir(directory) == 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("cannot enter ", directory, ": ", std::strerror(errno)));
}

}  // namespace zeroth
