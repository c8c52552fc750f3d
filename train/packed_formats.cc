// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/packed_formats.h"

#include <optional>

#include "zeroth/checkpoint/hf_experts.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/nn/layers/linear.h"

namespace zeroth {

PackedFormats FormatsOf(const PackedBlocks& blocks, const WeightsSource& weights,
                        const LanguageModel& model) {
  PackedFormats formats;
  for (const Parameter* parameter : StoredParameters(model)) {
    const auto found = blocks.blocks().find(weights.StoredName(parameter->name()));
    if (found != blocks.blocks().end()) formats[parameter->name()] = found->second;
  }
  return formats;
}

PackedFormats PublishedFormats(const LanguageModel& model) {
  PackedFormats formats;
  for (const Parameter* parameter : StoredParameters(model)) {
    const std::optional<ExpertPart> part = ExpertPartOf(parameter->name());
    if (part.has_value() && !part->is_bias) formats[parameter->name()] = PackedFormat::kMxfp4;
  }
  return formats;
}

}  // namespace zeroth
