// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdio>

#include "absl/status/status.h"

#include "zeroth/core/base/command_line.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/train/flags.h"
#include "zeroth/train/interrupt.h"
#include "zeroth/train/run.h"

namespace zeroth {
namespace {

absl::Status Train(int argc, char** argv) {
  ZEROTH_RETURN_IF_ERROR(EnterUsersDirectory());
  ZEROTH_ASSIGN_OR_RETURN(const TrainOptions options, ParseCommandLine(argc, argv));
  CatchInterrupts();
  const absl::Status status = RunTraining(options);
  // A run that trained has left its model and metrics, whether or not its lines could be printed.
  if (!options.dry_run && options.steps > 0) std::clearerr(stdout);
  return status;
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  return zeroth::RunProgram([&] { return zeroth::Train(argc, argv); });
}
