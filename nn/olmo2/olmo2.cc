// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// OLMo 2 ("2 OLMo 2 Furious", 2024): Llama with norms after attention and MLP instead of before
// them, and norms of all queries and of all keys, with the names of Hugging Face's
// Olmo2ForCausalLM.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Olmo2() {
  DecoderFamily family = LlamaLikeFamily("olmo2", "Olmo2ForCausalLM");
  DecoderConfig& base = family.base;
  base.names.attention_norm = "post_attention_layernorm";
  base.names.mlp_norm = "post_feedforward_layernorm";
  base.names.q_norm = "q_norm";
  base.names.k_norm = "k_norm";
  base.norm_placement = DecoderConfig::NormPlacement::kAfter;
  base.qk_norm_over_all_heads = true;
  base.norm_eps = 1e-5;
  family.keys.insert(family.keys.end(), {{"attention_bias", &DecoderConfig::qkv_bias},
                                         {"attention_bias", &DecoderConfig::attention_out_bias}});
  family.presets = {{"olmo2_1b", 100352, 4096, 2048, 16, 16, 16, 8192, 500000.0, 1e-6}};
  return family;
}

const DecoderRegistration registration(Olmo2());

}  // namespace
}  // namespace zeroth
