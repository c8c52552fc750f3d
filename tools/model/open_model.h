// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "zeroth/checkpoint/hf_directory.h"

namespace zeroth {

// Opens a plain model: a Hugging Face directory; a GGUF file, with its vocabulary; a checkpoint of
// the trainer, with adapters merged; or an adapter of PEFT's, merged into the model in `base`, or
// if that is empty, into the model that the adapter names. Weights are merged while they are read.
// InvalidArgument for a `base` (the flag --base) without an adapter, and for an adapter that does
// not fit its model.
absl::StatusOr<HfDirectory> OpenModel(const std::string& path, const std::string& base);

}  // namespace zeroth
