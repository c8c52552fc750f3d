// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace zeroth {

// True for a key of config.json that changes nothing a decoder computes, in any family: what
// transformers records about files and versions, options of generation, of outputs and of other
// tasks, dropout (an option of the trainer), and attributes of an implementation.
bool IsIgnoredConfigKey(absl::string_view key);

// InvalidArgument for keys whose presence means that the weights, or what is computed from them,
// are not those of the family: quantized weights, code beside the model, pruned heads, a decoder
// with an encoder. Says what to do.
absl::Status CheckKeysOfOtherModels(const nlohmann::json& config);

}  // namespace zeroth
