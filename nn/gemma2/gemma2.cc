// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Gemma 2 (Gemma Team, "Gemma 2: Improving open language models at a practical size", 2024): norms
// before and after attention and MLP, scaled by 1 + weight; capped scores and logits; GELU in a
// gated MLP; and windows in every other layer, from the first on. The names are those of Hugging
// Face's Gemma2ForCausalLM.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Gemma2() {
  DecoderFamily family = LlamaLikeFamily("gemma2", "Gemma2ForCausalLM");
  DecoderConfig& base = family.base;
  base.names.attention_out_norm = "post_attention_layernorm";
  base.names.mlp_norm = "pre_feedforward_layernorm";
  base.names.mlp_out_norm = "post_feedforward_layernorm";
  base.norm = NormKind::kRmsPlusOne;
  base.norm_placement = DecoderConfig::NormPlacement::kBoth;
  base.activation = ActivationFunction::kGelu;
  base.scaled_embedding = true;
  base.tied_head = true;
  base.max_positions = 8192;
  base.kv_heads = 4;
  base.head_dim = 256;
  base.query_scalar = 256;
  base.score_cap = 50;
  base.logit_cap = 30;
  base.mixes_windows = true;
  base.window = 4096;
  base.window_pattern = 2;
  base.one_rope = true;
  family.keys.insert(
      family.keys.end(),
      {{"query_pre_attn_scalar", &DecoderConfig::query_scalar},
       {"attn_logit_softcapping", &DecoderConfig::score_cap, false, /*null_is_zero=*/true},
       {"final_logit_softcapping", &DecoderConfig::logit_cap, false, /*null_is_zero=*/true},
       {"sliding_window", &DecoderConfig::window, false, /*null_is_zero=*/true},
       {"attention_bias", &DecoderConfig::qkv_bias},
       {"attention_bias", &DecoderConfig::attention_out_bias}});
  for (FixedKey& key : family.fixed) {
    if (key.name == "hidden_act") key = {"hidden_activation", "gelu_pytorch_tanh"};
  }
  // transformers reads hidden_activation alone. The others are in published files.
  family.fixed.insert(family.fixed.end(),
                      {{"hidden_act", nullptr, FixedKey::Use::kUnused},
                       {"cache_implementation", nullptr, FixedKey::Use::kUnused},
                       {"sliding_window_size", nullptr, FixedKey::Use::kUnused},
                       {"use_bidirectional_attention", false, FixedKey::Use::kRead}});
  family.presets = {{"gemma2_2b", 256000, 8192, 2304, 26, 8, 4, 9216, 1e4, 1e-6},
                    {"gemma2_9b", 256000, 8192, 3584, 42, 16, 8, 14336, 1e4, 1e-6}};
  return family;
}

const DecoderRegistration registration(Gemma2());

}  // namespace
}  // namespace zeroth
