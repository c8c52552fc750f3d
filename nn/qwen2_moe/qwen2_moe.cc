// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Qwen2-MoE (Yang et al., "Qwen2 technical report", 2024), also of Qwen1.5: Qwen2 with a mixture of
// experts and a gated expert that all tokens share instead of most MLPs, with the names of Hugging
// Face's Qwen2MoeForCausalLM, which stores experts one by one.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Qwen2Moe() {
  DecoderFamily family = LlamaLikeFamily("qwen2_moe", "Qwen2MoeForCausalLM");
  DecoderConfig& base = family.base;
  base.names.shared_expert = "shared_expert";
  base.names.shared_expert_gate = "shared_expert_gate";
  base.max_positions = 32768;
  base.kv_heads = 16;
  base.qkv_bias = true;
  base.experts = 60;
  base.experts_per_token = 4;
  base.expert_hidden = 1408;
  base.shared_hidden = 5632;
  AddQwenExperts(family);
  AddQwenWindow(family);
  family.keys.insert(family.keys.end(),
                     {{"qkv_bias", &DecoderConfig::qkv_bias},
                      {"shared_expert_intermediate_size", &DecoderConfig::shared_hidden}});
  return family;
}

const DecoderRegistration registration(Qwen2Moe());

}  // namespace
}  // namespace zeroth
