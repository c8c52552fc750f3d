// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TOOLS_MODEL_OPEN_MODEL_H_
#define ZEROTH_TOOLS_MODEL_OPEN_MODEL_H_

#include <string>

#include "absl/status/statusor.h"

#include "zeroth/checkpoint/hf_directory.h"

namespace zeroth {

// The plain model in a directory: a Hugging Face model; a checkpoint of the trainer, whose adapters
// are merged; or an adapter of PEFT's, merged into the model in `base`, or where that is empty, the
// one that the adapter names. Weights are merged as they are read. InvalidArgument for a `base`
// (the flag --base) that is none's, and for adapters and models that do not go together.
absl::StatusOr<HfDirectory> OpenModel(const std::string& path, const std::string& base);

}  // namespace zeroth

#endif  // ZEROTH_TOOLS_MODEL_OPEN_MODEL_H_
