// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/presets.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/nn/language_model.h"

namespace zeroth {

absl::StatusOr<nlohmann::json> PresetConfig(absl::string_view name) {
  for (const ModelPreset& preset : ModelRegistry::Presets()) {
    if (name == preset.name) return preset.config;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown model '", name, "'; the presets are: ", absl::StrJoin(PresetNames(), ", ")));
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const ModelPreset& preset : ModelRegistry::Presets()) names.push_back(preset.name);
  return names;
}

}  // namespace zeroth
