// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_FLAGS_H_
#define ZEROTH_TRAIN_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"

#include "zeroth/train/options.h"

namespace zeroth {

// Parses the command line into options, which are validated; --help and --version, which shows
// `version`, print and exit. InvalidArgument for arguments that are not flags, flags that do not
// exist (with what may have been meant) or have no value, and values out of range; the flags
// library itself ends the program on a value that does not parse.
absl::StatusOr<TrainOptions> ParseCommandLine(int argc, char** argv, const std::string& version);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_FLAGS_H_
