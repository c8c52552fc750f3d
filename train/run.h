// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/statusor.h"

#include "zeroth/options/options.h"

namespace zeroth {

enum class RunEnd {
  kFinished,
  // A signal or --max_seconds ended the run early. A checkpoint has all steps so far; continue from
  // it with --resume=auto.
  kInterrupted,
};

// The trainer's exit code for kInterrupted: EX_TEMPFAIL of sysexits.h, "try again later". Neither
// 0, which means a finished job to schedulers, nor 1, which means an error.
inline constexpr int kExitInterrupted = 75;

// Makes a whole training run: resolves the options, opens data and model, starts the ranks, trains,
// reports, and saves to options.out. Errors of options and files show before any rank starts.
// Prints to stdout.
absl::StatusOr<RunEnd> RunTraining(const TrainOptions& options);

}  // namespace zeroth
