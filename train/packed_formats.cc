// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/packed_formats.h"

#include <optional>
#include <string>

#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/hf_experts.h"
#include "zeroth/core/base/status_macros.h"
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

absl::Status ExpectGptOss(const std::string& name, nlohmann::json& config) {
  ZEROTH_ASSIGN_OR_RETURN(const HfConfig parsed, HfConfig::Parse(config.dump(), name));
  if (!StacksExperts(parsed)) {
    return InvalidArgument(name,
                           ": --base_dtype=mxfp4 needs the experts of gpt-oss; expected "
                           "--init_from=DIRECTORY of a gpt-oss in MXFP4, or, to plan, "
                           "--model=gpt_oss_20b or gpt_oss_120b");
  }
  const auto found = config.find("quantization_config");
  if (found != config.end() && found->is_object() && found->contains("quant_method") &&
      (*found)["quant_method"] == "mxfp4") {
    config.erase(found);
  }
  return absl::OkStatus();
}

}  // namespace zeroth
