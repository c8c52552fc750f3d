// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Models of text and images, of which the text model alone is used.

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/weights_source.h"

namespace zeroth {

// A text model, with the configuration and the names of tensors that transformers' class for text
// alone has.
struct HfTextModel {
  HfConfig config;
  std::shared_ptr<const WeightsSource> weights;
  std::string left_out;  // the other parts that the files have, in words; empty if there are none
};

// Returns whether config.json describes a model of text and images that ExtractTextModel takes:
// "model_type" is "gemma3" (Gemma3ForConditionalGeneration) or "qwen3_5"
// (Qwen3_5ForConditionalGeneration).
bool HasTextModel(const HfConfig& config);

// Returns the text model of such a model: the object "text_config", where missing sizes are those
// of transformers' defaults, and the language model's tensors, under the prefix of published files
// or that of transformers' modules. The other parts, such as the vision tower, are never read.
// InvalidArgument if "text_config" is not an object, or if the files have the same tensor under two
// names.
absl::StatusOr<HfTextModel> ExtractTextModel(const HfConfig& config,
                                             std::shared_ptr<const WeightsSource> weights);

}  // namespace zeroth
