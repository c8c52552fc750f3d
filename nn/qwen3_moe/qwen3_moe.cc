// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Qwen3-MoE (Yang et al., "Qwen3 technical report", 2025): Qwen3 with a mixture of experts instead
// of most MLPs, with the names of Hugging Face's Qwen3MoeForCausalLM, which stores experts one by
// one.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Qwen3Moe() {
  DecoderFamily family = LlamaLikeFamily("qwen3_moe", "Qwen3MoeForCausalLM");
  DecoderConfig& base = family.base;
  base.names.q_norm = "q_norm";
  base.names.k_norm = "k_norm";
  base.max_positions = 32768;
  base.kv_heads = 4;
  base.experts = 128;
  base.experts_per_token = 8;
  base.expert_hidden = 768;
  AddQwenExperts(family);
  AddQwenWindow(family);
  family.keys.insert(family.keys.end(), {{"attention_bias", &DecoderConfig::qkv_bias},
                                         {"attention_bias", &DecoderConfig::attention_out_bias},
                                         // A name of "num_experts" in newer files.
                                         {"num_local_experts", &DecoderConfig::experts}});
  const nlohmann::json more = {{"head_dim", 128}, {"norm_topk_prob", true}};
  family.presets = {{"qwen3_30b_a3b", 151936, 40960, 2048, 48, 32, 4, 6144, 1e6, 1e-6, more}};
  return family;
}

const DecoderRegistration registration(Qwen3Moe());

}  // namespace
}  // namespace zeroth
