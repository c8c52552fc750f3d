// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The dense text models of Qwen3.5: gated DeltaNets in most layers (Yang et al., "Gated Delta
// Networks", 2025), and in the others Qwen3's attention, with gated outputs and RoPE on a part of
// each head. Norms scale by 1 + weight. The names are those of Hugging Face's Qwen3_5ForCausalLM.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Qwen35() {
  using Use = FixedKey::Use;
  DecoderFamily family = LlamaLikeFamily("qwen3_5_text", "Qwen3_5ForCausalLM");
  family.classifier = "Qwen3_5TextForSequenceClassification";
  DecoderConfig& base = family.base;
  base.names.q_norm = "q_norm";
  base.names.k_norm = "k_norm";
  base.names.linear_attention = "linear_attn";
  base.names.linear_qkv = "in_proj_qkv";
  base.names.linear_z = "in_proj_z";
  base.names.linear_b = "in_proj_b";
  base.names.linear_a = "in_proj_a";
  base.names.linear_out = "out_proj";
  base.norm = NormKind::kRmsPlusOne;
  base.gated_attention = true;
  base.max_positions = 32768;
  base.kv_heads = 4;
  base.head_dim = 256;
  base.rope_keys = RopeKeys::kShare;
  base.rope.rotated_share = 0.25;
  base.mixes_linear = true;
  base.window_pattern = 4;
  base.linear_taps = 4;
  base.linear_key_heads = 16;
  base.linear_value_heads = 32;
  base.linear_key_dim = 128;
  base.linear_value_dim = 128;
  family.keys.insert(family.keys.end(),
                     {{"full_attention_interval", &DecoderConfig::window_pattern},
                      {"linear_conv_kernel_dim", &DecoderConfig::linear_taps},
                      {"linear_num_key_heads", &DecoderConfig::linear_key_heads},
                      {"linear_num_value_heads", &DecoderConfig::linear_value_heads},
                      {"linear_key_head_dim", &DecoderConfig::linear_key_dim},
                      {"linear_value_head_dim", &DecoderConfig::linear_value_dim},
                      {"attention_bias", &DecoderConfig::qkv_bias},
                      {"attention_bias", &DecoderConfig::attention_out_bias}});
  // mamba_ssm_dtype is the dtype of states, always fp32 here. The mtp_ keys describe layers for
  // multi-token prediction, which are not read.
  family.fixed.insert(family.fixed.end(),
                      {{"attn_output_gate", true, Use::kRead},
                       {"mamba_ssm_dtype", "float32", Use::kUnused},
                       {"mtp_num_hidden_layers", nullptr, Use::kUnused},
                       {"mtp_use_dedicated_embeddings", nullptr, Use::kUnused}});
  // text_config of the config.json in Qwen/Qwen3.5-0.8B, -2B, -4B, -9B and -27B of Hugging Face, as
  // copies in public repositories have it.
  const auto preset = [](const char* name, int64_t dim, int64_t layers, int64_t heads,
                         int64_t kv_heads, int64_t mlp_hidden, int64_t value_heads, bool tied) {
    const nlohmann::json more = {
        {"tie_word_embeddings", tied}, {"head_dim", 256}, {"linear_num_value_heads", value_heads}};
    return DecoderPreset{name,     248320,     262144, dim,  layers, heads,
                         kv_heads, mlp_hidden, 1e7,    1e-6, more};
  };
  family.presets = {preset("qwen3_5_0_8b", 1024, 24, 8, 2, 3584, 16, true),
                    preset("qwen3_5_2b", 2048, 24, 8, 2, 6144, 16, true),
                    preset("qwen3_5_4b", 2560, 32, 16, 4, 9216, 32, true),
                    preset("qwen3_5_9b", 4096, 32, 16, 4, 12288, 32, false),
                    preset("qwen3_5_27b", 5120, 64, 24, 4, 17408, 48, false)};
  return family;
}

const DecoderRegistration registration(Qwen35());
const VisionRegistration with_vision("qwen3_5", "qwen3_5_text");

}  // namespace
}  // namespace zeroth
