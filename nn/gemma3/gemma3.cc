// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The text models of Gemma 3 (Gemma Team, "Gemma 3 technical report", 2025): norms before and after
// attention and MLP, scaled by 1 + weight; norms of query and key heads; GELU in a gated MLP; and
// windows in most layers, whose rotary positions have a different base. The names are those of
// Hugging Face's Gemma3ForCausalLM.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Gemma3() {
  DecoderFamily family = LlamaLikeFamily("gemma3_text", "Gemma3ForCausalLM");
  family.classifier = "Gemma3TextForSequenceClassification";
  DecoderConfig& base = family.base;
  base.names.attention_out_norm = "post_attention_layernorm";
  base.names.mlp_norm = "pre_feedforward_layernorm";
  base.names.mlp_out_norm = "post_feedforward_layernorm";
  base.names.q_norm = "q_norm";
  base.names.k_norm = "k_norm";
  base.norm = NormKind::kRmsPlusOne;
  base.norm_placement = DecoderConfig::NormPlacement::kBoth;
  base.activation = ActivationFunction::kGelu;
  base.scaled_embedding = true;
  base.tied_head = true;
  base.max_positions = 131072;
  base.kv_heads = 4;
  base.head_dim = 256;
  base.query_scalar = 256;
  base.mixes_windows = true;
  base.window = 4096;
  base.window_pattern = 6;
  base.rope.theta = 1e6;
  base.local_rope.theta = 1e4;
  family.keys.insert(family.keys.end(),
                     {{"query_pre_attn_scalar", &DecoderConfig::query_scalar},
                      {"sliding_window", &DecoderConfig::window, false, /*null_is_zero=*/true},
                      {"sliding_window_pattern", &DecoderConfig::window_pattern},
                      {"attention_bias", &DecoderConfig::qkv_bias},
                      {"attention_bias", &DecoderConfig::attention_out_bias}});
  for (FixedKey& key : family.fixed) {
    if (key.name == "hidden_act") key = {"hidden_activation", "gelu_pytorch_tanh"};
  }
  family.fixed.insert(family.fixed.end(),
                      {{"attn_logit_softcapping", nullptr},
                       {"final_logit_softcapping", nullptr},
                       {"use_bidirectional_attention", false},
                       {"_sliding_window_pattern", nullptr, FixedKey::Use::kUnused}});
  const nlohmann::json more = {
      {"head_dim", 256}, {"sliding_window", 512}, {"query_pre_attn_scalar", 256}};
  // The larger ones are the text models of models with a vision tower.
  const auto larger = [](int64_t head_dim, int64_t scalar) -> nlohmann::json {
    return {{"head_dim", head_dim},
            {"sliding_window", 1024},
            {"query_pre_attn_scalar", scalar},
            {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}}};
  };
  constexpr int64_t kWords = 262208;
  constexpr int64_t kContext = 131072;
  family.presets = {
      {"gemma3_1b", 262144, 32768, 1152, 26, 4, 1, 6912, 1e6, 1e-6, more},
      {"gemma3_4b", kWords, kContext, 2560, 34, 8, 4, 10240, 1e6, 1e-6, larger(256, 256)},
      {"gemma3_12b", kWords, kContext, 3840, 48, 16, 8, 15360, 1e6, 1e-6, larger(256, 256)},
      {"gemma3_27b", kWords, kContext, 5376, 62, 32, 16, 21504, 1e6, 1e-6, larger(128, 168)}};
  return family;
}

const DecoderRegistration registration(Gemma3());

const VisionRegistration with_vision("gemma3", "gemma3_text");

}  // namespace
}  // namespace zeroth
