// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_FLAGS_H_
#define ZEROTH_TRAIN_FLAGS_H_

#include "absl/status/statusor.h"

#include "zeroth/train/options.h"

namespace zeroth {

// Parses the command line (--help prints and exits) into options, which are validated.
// InvalidArgument for arguments that are not flags and for values out of range; the flags library
// itself ends the program on an unknown flag or a value that does not parse.
absl::StatusOr<TrainOptions> ParseCommandLine(int argc, char** argv);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_FLAGS_H_
