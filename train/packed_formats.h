// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/packed_blocks.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/kernels/packed/packed_format.h"
#include "zeroth/nn/language_model.h"

namespace zeroth {

// Formats of packed weights by the model's names, as in LoraOptions::base_formats.
using PackedFormats = std::map<std::string, PackedFormat, std::less<>>;

// Returns the formats of the model's parameters that `blocks` holds under
// WeightsSource::StoredName.
PackedFormats FormatsOf(const PackedBlocks& blocks, const WeightsSource& weights,
                        const LanguageModel& model);
// Assumes a gpt-oss as OpenAI published it: MXFP4 for the experts' matrices.
PackedFormats PublishedFormats(const LanguageModel& model);
// Checks that `config` is that of a gpt-oss, and removes its "quantization_config" if that says
// MXFP4, which PublishedFormats replaces. InvalidArgument, which begins with `name`, otherwise.
absl::Status ExpectGptOss(const std::string& name, nlohmann::json& config);

}  // namespace zeroth
