// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Options in a TOML file: the keys are the options' names, without sections.

#ifndef ZEROTH_TRAIN_CONFIG_FILE_H_
#define ZEROTH_TRAIN_CONFIG_FILE_H_

#include <string>

#include "absl/status/status.h"

#include "zeroth/train/options.h"

namespace zeroth {

// The file that a run writes to --out.
inline constexpr char kConfigName[] = "config.toml";

// Sets the options that the file names, and leaves the others. InvalidArgument names the file, line
// and key of everything that is wrong, what was expected there, and the option that may have been
// meant. Also the errors of ReadFile.
absl::Status ReadConfig(const std::string& path, TrainOptions& options);

// Returns the text of a file that sets every option to its value in `options`, with a comment for
// each group.
std::string ConfigText(const TrainOptions& options);

// Writes ConfigText to kConfigName in `directory`, and replaces an earlier file. Errors of
// WriteFileDurably.
absl::Status WriteConfig(const std::string& directory, const TrainOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_CONFIG_FILE_H_
