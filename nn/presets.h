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
// ModelRegistry::Create. The names are those of the families that are linked in (nn/gpt2,
// nn/llama). InvalidArgument lists them.
absl::StatusOr<nlohmann::json> PresetConfig(absl::string_view name);

// In order of size within a family.
std::vector<std::string> PresetNames();

}  // namespace zeroth

#endif  // ZEROTH_NN_PRESETS_H_
