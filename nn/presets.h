// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_NN_PRESETS_H_
#define ZEROTH_NN_PRESETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace zeroth {

// The configuration of a named model, as a Hugging Face config.json would have it: for
// ModelRegistry::Create.
//   gpt2_nano   0.8 M parameters over bytes, for the first minute
//   gpt2_124m, gpt2_355m, gpt2_774m, gpt2_1558m   the published sizes
//   llama_tiny  0.8 M parameters over bytes
//   llama_1b    TinyLlama's shape, llama_8b Llama 3's
// InvalidArgument lists the names.
absl::StatusOr<nlohmann::json> PresetConfig(absl::string_view name);

// In order of size within a family.
std::vector<std::string> PresetNames();

}  // namespace zeroth

#endif  // ZEROTH_NN_PRESETS_H_
