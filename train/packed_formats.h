// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <map>
#include <string>

#include "zeroth/checkpoint/packed_blocks.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/kernels/packed/packed_format.h"
#include "zeroth/nn/language_model.h"

namespace zeroth {

// Formats of packed weights by the model's names, as in LoraOptions::base_formats.
using PackedFormats = std::map<std::string, PackedFormat, std::less<>>;

// Returns the formats of `blocks`, whose names are those of `weights`.
PackedFormats FormatsOf(const PackedBlocks& blocks, const WeightsSource& weights,
                        const LanguageModel& model);
// Returns the formats of a gpt-oss as published: its experts' matrices are in MXFP4.
PackedFormats PublishedFormats(const LanguageModel& model);

}  // namespace zeroth
