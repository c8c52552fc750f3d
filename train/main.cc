// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdio>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/command_line.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/train/flags.h"
#include "zeroth/train/interrupt.h"
#include "zeroth/train/run.h"

namespace zeroth {
namespace {

absl::Status Train(int argc, char** argv, RunEnd& end) {
  ZEROTH_RETURN_IF_ERROR(EnterUsersDirectory());
  ZEROTH_ASSIGN_OR_RETURN(const TrainOptions options, ParseCommandLine(argc, argv));
  CatchInterrupts();
  const absl::StatusOr<RunEnd> ended = RunTraining(options);
  // A training run has written its model and metrics, so failing to print lines is not an error of
  // it.
  if (!options.dry_run && options.steps > 0) std::clearerr(stdout);
  end = ended.value_or(RunEnd::kFinished);
  return ended.status();
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  zeroth::RunEnd end = zeroth::RunEnd::kFinished;
  const int code = zeroth::RunProgram([&] { return zeroth::Train(argc, argv, end); });
  return code == 0 && end == zeroth::RunEnd::kInterrupted ? zeroth::kExitInterrupted : code;
}
