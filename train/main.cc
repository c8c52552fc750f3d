// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <string>

#include "zeroth/core/base/command_line.h"
#include "zeroth/train/flags.h"
#include "zeroth/train/interrupt.h"
#include "zeroth/train/run.h"

namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const absl::StatusOr<zeroth::TrainOptions> options = zeroth::ParseCommandLine(argc, argv);
  if (!options.ok()) return Fail(options.status());
  if (absl::Status status = zeroth::EnterUsersDirectory(); !status.ok()) return Fail(status);
  zeroth::CatchInterrupts();
  if (absl::Status status = zeroth::RunTraining(*options); !status.ok()) return Fail(status);
  return 0;
}
