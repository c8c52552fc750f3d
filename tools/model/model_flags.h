// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TOOLS_MODEL_MODEL_FLAGS_H_
#define ZEROTH_TOOLS_MODEL_MODEL_FLAGS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/tools/model/loaded_model.h"

namespace zeroth {

// For programs that use a model: parses the command line, with the flags that say which model and
// how it is computed, shown by --help beside the program's own, goes to the user's directory, and
// returns what those flags say. InvalidArgument for an argument that is no flag.
absl::StatusOr<LoadModelOptions> ParseModelFlags(absl::string_view usage, int argc, char** argv);

}  // namespace zeroth

#endif  // ZEROTH_TOOLS_MODEL_MODEL_FLAGS_H_
