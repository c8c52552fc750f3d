// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "zeroth/train/flags.h"
#include "zeroth/train/interrupt.h"
#include "zeroth/train/run.h"

namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}

// Under `bazel run` the program starts in Bazel's folders, but relative paths mean where the user
// stands.
absl::Status EnterUsersDirectory() {
  const char* directory = std::getenv("BUILD_WORKING_DIRECTORY");
  if (directory == nullptr || chdir(directory) == 0) return absl::OkStatus();
  return absl::NotFoundError(std::string("cannot enter ") + directory + ": " +
                             std::strerror(errno));
}

}  // namespace

int main(int argc, char** argv) {
  const absl::StatusOr<zeroth::TrainOptions> options = zeroth::ParseCommandLine(argc, argv);
  if (!options.ok()) return Fail(options.status());
  if (absl::Status status = EnterUsersDirectory(); !status.ok()) return Fail(status);
  zeroth::CatchInterrupts();
  if (absl::Status status = zeroth::RunTraining(*options); !status.ok()) return Fail(status);
  return 0;
}
