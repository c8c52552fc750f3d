// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The experts of gpt-oss (GptOssForCausalLM), whose files stack the tensors of a layer's experts.
// Of E experts with I inner and H hidden features, they hold, after "model.layers.N.mlp.experts.":
//
//   gate_up_proj [E, H, 2 I], gate_up_proj_bias [E, 2 I]: gate and up in alternate columns
//   down_proj [E, I, H], down_proj_bias [E, H]
//
// and published files, instead of the two matrices, MXFP4 (OCP Microscaling Formats, 2023):
//
//   gate_up_proj_blocks [E, 2 I, H / 32, 16], gate_up_proj_scales [E, 2 I, H / 32], both uint8
//   down_proj_blocks [E, H, I / 32, 16], down_proj_scales [E, H, I / 32]
//
// A byte of blocks has two E2M1 codes, the first in the lower half. 32 codes share a scale of
// 2^(byte - 127). These matrices are not transposed.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/weights_source.h"

namespace zeroth {

// Returns whether config.json describes a model whose files stack experts: "model_type" is
// "gpt_oss".
bool StacksExperts(const HfConfig& config);

// Unimplemented if `layers`, the names of adapted layers, include an expert of a model whose files
// stack experts. transformers has no module for a single expert there, so PEFT cannot adapt it.
absl::Status CheckAdapterLayers(const HfConfig& config, absl::Span<const std::string> layers);

// A model whose experts have separate tensors.
struct HfSeparateExperts {
  HfConfig config;
  std::shared_ptr<const WeightsSource> weights;
};

// Presents the experts of such a model as linear layers: "...mlp.experts.E.gate_proj.weight" [I, H]
// and ".bias" [I], up_proj alike, and down_proj [H, I] and [H]. Caches the last expert that was
// read, its part of one stack, in fp32. MXFP4 becomes BF16, which represents it exactly, with the
// bits of transformers' convert_moe_packed_tensors, so the result's config has no
// "quantization_config". The result's weights also implement PackedBlocks, which returns MXFP4
// weights as GGUF blocks. GGUF has no negative zero, and reads a scale of 255 as 2^128; in BF16 it
// is infinite. Other tensors keep their names. InvalidArgument, naming the tensor, for a shape or a
// type other than above, for blocks without scales, and for a model quantised by another method.
absl::StatusOr<HfSeparateExperts> SeparateExperts(const HfConfig& config,
                                                  std::shared_ptr<const HfWeights> weights);

// Where one expert's tensor lies in a stack, for both directions of the conversion.
struct ExpertPart {
  // The tensor's layer and name, as "model.layers.0.mlp.experts.", "gate_up_proj" or "down_proj".
  std::string layer;
  std::string stack;
  int64_t expert = 0;
  // Row r of the matrix or the bias is row first + step * r of the expert in the stack.
  int64_t first = 0;
  int64_t step = 1;
  bool is_bias = false;

  // The name of the stack of floating-point numbers.
  std::string StackName() const;
};

// Returns the part that tensor `name` of a separate expert is; nullopt for other tensors.
std::optional<ExpertPart> ExpertPartOf(absl::string_view name);

}  // namespace zeroth
